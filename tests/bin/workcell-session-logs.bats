#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load helper

setup() {
	make_world
}

logs() {
	"$bin/workcell-session-logs" "$@"
}

# make_log FILE TEXT: a file that only its owner may read
make_log() {
	mkdir -p -m 700 "${1%/*}"
	printf '%s\n' "$2" >"$1"
	chmod 600 "$1"
}

# shows TEXT / refuses WORD: what --kind debug of session ONE answers
shows() {
	run --separate-stderr logs --id "$ONE" --kind debug
	[ "$status" -eq 0 ] || return 1
	[ "$output" = "$1" ] || return 1
	[ -z "$stderr" ] || return 1
}

refuses() {
	run --separate-stderr timeout 10 "$bin/workcell-session-logs" --id "$ONE" --kind debug
	[ "$status" -eq 1 ] || return 1
	[ -z "$output" ] || return 1
	[ "${#stderr_lines[@]}" -eq 1 ] || return 1
	[[ "$stderr" == *"$1"* ]] || return 1
}

@test "logs: --kind audit prints the lines of that session alone, with --all the whole log" { # D15
	make_record "$ONE"
	make_record "$TWO"
	add_event "$ONE" launch
	add_event "$TWO" command "argv=the secret plan of the other, session_id=$ONE"
	add_event "$ONE" exit
	run --separate-stderr logs --id "$ONE" --kind audit
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$output" = "$(sed -n '1p; 3p' "$log")" ]
	logs --id "$ONE" --kind audit --all | cmp - "$log"
	run logs --id "$ONE" --kind audit --tail 1
	[ "$output" = "$(tail -n 1 "$log")" ]
	run logs --id "$ONE" --kind audit --tail 1 --all
	[ "$output" = "$(tail -n 1 "$log")" ]
	run logs --id "$TWO" --kind audit --tail 0
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "logs: the audit log is opened where it belongs and not where a record says" { # D15
	make_log "$HOME/other.log" "event=x session_id=$ONE "
	make_record "$ONE" "audit_log_path=$HOME/other.log"
	add_event "$ONE" launch
	for words in "" --all --follow; do
		# shellcheck disable=SC2086
		run --separate-stderr logs --id "$ONE" --kind audit $words
		[ "$status" -eq 1 ]
		[ -z "$output" ]
		[[ "$stderr" == *"canonical location"* ]]
	done
}

@test "logs: a recorded file in the profile's folder is shown, byte for byte" {
	printf 'a\0\377\nno end' >"$BATS_TEST_TMPDIR/bytes"
	for path in "$profile/debug.log" "$profile/logs/deep/debug.log"; do
		make_record "$ONE" "debug_log_path=$path"
		make_log "$path" x
		cat "$BATS_TEST_TMPDIR/bytes" >"$path"
		logs --id "$ONE" --kind debug | cmp - "$BATS_TEST_TMPDIR/bytes"
	done
}

@test "logs: records, seals, keys, and what belongs to other sessions are no logs of this one" { # D15
	make_record "$TWO"
	add_event "$TWO" launch
	seal "$TWO"
	make_log "$profile/transcripts/$TWO.cast" secret
	make_log "$profile/session-audit.abc123/debug.log" secret
	make_log "$profile/home/claude/notes" secret
	make_log "$profile/workcell.audit.log.torn-2026-03-02T08:15:00Z" secret
	make_log "$profile/workcell.latest-debug-log" secret
	make_log "$profile/.hidden" secret
	make_log "${profile%/*}/wcl-other/debug.log" secret
	make_log "$HOME/.colima/wcl-old/debug.log" secret
	for path in "$(record_of "$TWO")" "$profile/sessions/$TWO.audit-sig" "$log" "$WORKCELL_STATE_ROOT/signing/signing.key" \
		"$profile/transcripts/$TWO.cast" "$profile/session-audit.abc123/debug.log" "$profile/home/claude/notes" \
		"$profile/workcell.audit.log.torn-2026-03-02T08:15:00Z" "$profile/workcell.latest-debug-log" "$profile/.hidden" \
		"${profile%/*}/wcl-other/debug.log" "$HOME/.colima/wcl-old/debug.log"; do
		[ -f "$path" ]
		make_record "$ONE" "debug_log_path=$path"
		refuses "is no log of this session"
	done
}

@test "logs: the session's own transcript and a file of its own scratch folder are its logs" {
	make_log "$profile/transcripts/$ONE.cast" mine
	make_record "$ONE" "transcript_log_path=$profile/transcripts/$ONE.cast" "debug_log_path=$profile/transcripts/$ONE.cast"
	[ "$(logs --id "$ONE" --kind transcript)" = mine ]
	make_log "$profile/session-audit.abc123/debug.log" scratch
	make_record "$ONE" "session_audit_dir=$profile/session-audit.abc123" "debug_log_path=$profile/session-audit.abc123/debug.log"
	shows scratch
}

@test "logs: outside of all state a file is shown if it is the caller's, closed to others and has one link" { # D15
	make_record "$ONE" "debug_log_path=$HOME/logs/debug.log"
	make_log "$HOME/logs/debug.log" outside
	shows outside
	chmod 640 "$HOME/logs/debug.log"
	refuses "is open to others (mode 0640)"
	chmod 600 "$HOME/logs/debug.log"
	ln "$HOME/logs/debug.log" "$HOME/second"
	refuses "2 links"
	rm "$HOME/second"
	chmod 777 "$HOME/logs"
	refuses "others may change"
	chmod 700 "$HOME/logs"
	mv "$HOME/logs/debug.log" "$HOME/real"
	ln -s "$HOME/real" "$HOME/logs/debug.log"
	refuses "is a link"
	rm "$HOME/logs/debug.log"
	mkfifo -m 600 "$HOME/logs/debug.log"
	refuses "is no regular file"
	rm "$HOME/logs/debug.log"
	refuses "no debug log recorded"
	mkdir "$HOME/logs/debug.log"
	refuses "no regular file"
	rmdir "$HOME/logs/debug.log" "$HOME/logs"
	mkdir -m 700 "$HOME/elsewhere"
	make_log "$HOME/elsewhere/debug.log" far
	ln -s elsewhere "$HOME/logs"
	refuses "is a link"
	if [ "$(id -u)" -eq 0 ]; then
		rm "$HOME/logs"
		make_log "$HOME/logs/debug.log" theirs
		chown 60123 "$HOME/logs/debug.log"
		refuses "belongs to uid 60123"
	fi
}

@test "logs: a path that is relative, unclean or unprintable is blocked" {
	make_log "$HOME/debug.log" outside
	cd "$HOME"
	for path in debug.log "./debug.log" "$HOME//debug.log" "$HOME/./debug.log" "$HOME/x/../debug.log" "$HOME/debug.log/" "~/debug.log"; do
		make_record "$ONE" "debug_log_path=$path"
		refuses "blocked"
	done
}

@test "logs: a state root behind a link of the caller's has logs too" { # D35
	make_record "$ONE" "debug_log_path=$profile/debug.log"
	make_log "$profile/debug.log" linked
	mv "$WORKCELL_STATE_ROOT" "$BATS_TEST_TMPDIR/real"
	ln -s real "$WORKCELL_STATE_ROOT"
	shows linked
}

@test "logs: --tail counts lines from the end, whatever the last one lacks" {
	make_record "$ONE" "debug_log_path=$profile/debug.log"
	make_log "$profile/debug.log" x
	for ending in '' '\n'; do
		# shellcheck disable=SC2059
		{ seq 30000 && printf "last$ending"; } >"$profile/debug.log"
		for count in 0 1 2 29999 30001 40000; do
			cmp <(logs --id "$ONE" --kind debug --tail "$count") <(tail -n "$count" "$profile/debug.log")
		done
	done
	for word in -1 x 1.5 ''; do
		run logs --id "$ONE" --kind debug "--tail=$word"
		[ "$status" -eq 2 ]
	done
}

@test "logs: a line of 200 kB is whole, on a pipe, as text and with --tail" { # D07
	long=$(printf '%0200000d' 0)
	make_log "$profile/transcripts/$ONE.cast" '{"version": 2, "width": 80, "height": 24}'
	printf '[0.1, "o", "%s"]\n[0.2, "o", "%s\\r\\nend\\r\\n"]\n' "${long:100000}" "${long:100000}" >>"$profile/transcripts/$ONE.cast"
	make_record "$ONE" "transcript_log_path=$profile/transcripts/$ONE.cast"
	logs --id "$ONE" --kind transcript | cmp - "$profile/transcripts/$ONE.cast"
	[ "$(logs --id "$ONE" --kind transcript --text)" = "$long"$'\nend' ]
	[ "$(logs --id "$ONE" --kind transcript --text --tail 1)" = end ]
}

@test "logs: --text is what can be read of a recording, of this or another program" {
	make_log "$profile/transcripts/$ONE.cast" '{"version": 2, "width": 80, "height": 24}'
	cat >>"$profile/transcripts/$ONE.cast" <<-'EOF'
		[0.1, "o", "\u001b[31mred\u001b[0m\r\n12%\r100%\r\n"]
		[0.2, "r", "80x24"]
		[0.2, "o", "\u001b]0;a title that\r\ngoes on\u0007caf"]
		[0.3, "o", "é\r\n$ "]
		[0.3, "m", "a remark"]
		not JSON
	EOF
	make_record "$ONE" "transcript_log_path=$profile/transcripts/$ONE.cast"
	[ "$(logs --id "$ONE" --kind transcript --text)" = $'red\n100%\ncafé\n$' ]
	printf 'Script started\n\x1b[1mbold\x1b[0m\r\n' >"$profile/transcripts/$ONE.cast"
	[ "$(logs --id "$ONE" --kind transcript --text)" = $'Script started\nbold' ]
}

@test "logs: a terminal gets no control character of a log, and characters that reads cut are whole" { # D01, D02, D10
	make_record "$ONE" "debug_log_path=$profile/debug.log"
	make_log "$profile/debug.log" x
	python3 -c '
import sys
sys.stdout.buffer.write("é漢\U0001f600".encode() * 20000 + b"\x1b]52;c;QQ==\x07\x9b31m\xc2\x9b\n")' >"$profile/debug.log"
	on_terminal "$bin/workcell-session-logs" --id "$ONE" --kind debug >"$BATS_TEST_TMPDIR/shown"
	[ "$(sed 's/é漢😀//g' "$BATS_TEST_TMPDIR/shown")" = '\x1b]52;c;QQ==\x07\x9b31m\x9b'$'\r' ]
	logs --id "$ONE" --kind debug | cmp - "$profile/debug.log"
}

@test "logs: --follow of a session that is over ends at once" {
	make_record "$ONE" "debug_log_path=$profile/debug.log"
	make_log "$profile/debug.log" all
	add_event "$ONE" exit
	[ "$(timeout 10 "$bin/workcell-session-logs" --id "$ONE" --kind debug --follow)" = all ]
	[ "$(timeout 10 "$bin/workcell-session-logs" --id "$ONE" --kind audit --follow)" = "$(cat "$log")" ]
}

@test "logs: unknown id, missing log and usage errors" {
	make_record "$ONE"
	run --separate-stderr logs --id nope --kind audit
	[ "$status" -eq 1 ]
	[[ "$stderr" == *"file does not exist"* ]]
	for kind in audit debug file-trace transcript; do
		run --separate-stderr logs --id "$ONE" --kind "$kind"
		[ "$status" -eq 1 ]
		[[ "$stderr" == *"no $kind log recorded"* ]]
	done
	for words in "" "--id $ONE" "--kind audit" "--id $ONE --kind other" "--id $ONE --kind debug --all" "--id $ONE --kind audit --text"; do
		# shellcheck disable=SC2086
		run --separate-stderr logs $words
		[ "$status" -eq 2 ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
}

@test "logs: changes and locks nothing" {
	make_record "$ONE" "debug_log_path=$profile/debug.log"
	make_log "$profile/debug.log" x
	add_event "$ONE" launch
	before=$(tree_of)
	exec 9<"$log.lock.guard"
	flock 9
	for kind in audit debug; do
		run timeout 10 "$bin/workcell-session-logs" --id "$ONE" --kind "$kind"
		[ "$status" -eq 0 ]
	done
	exec 9<&-
	[ "$(tree_of)" = "$before" ]
}

@test "logs: needs no installed package and loads nothing that is slow" {
	make_record "$ONE"
	add_event "$ONE" launch
	loads_little workcell-session-logs --id "$ONE" --kind audit
}
