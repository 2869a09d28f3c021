#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load helper

setup() {
	make_world
}

timeline() {
	"$bin/workcell-session-timeline" "$@"
}

events() {
	sed -n 's/.* event=\([^ ]*\) .*/\1/p' <<<"$output" | tr '\n' ' '
}

@test "timeline: prints the lines of one session as they stand in the log" {
	make_record "$ONE"
	make_record "$TWO"
	add_event "$ONE" launch
	add_event "$TWO" launch
	add_event "$ONE" command "argv=it's two words"
	run --separate-stderr timeline --id "$ONE"
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$(events)" = "launch command " ]
	[ "$output" = "$(sed -n 's/ $//; 1p; 3p' "$log")" ]
}

@test "timeline: a message that ends in another session's id is not that session's" { # D13
	make_record "$ONE"
	make_record "$TWO"
	add_event "$ONE" command "argv=x session_id=$TWO"
	add_event "$ONE" command $'argv=two\nlines session_id='"$TWO"
	add_event "$TWO" exit
	run timeline --id "$TWO"
	[ "$(events)" = "exit " ]
	run timeline --id "$ONE"
	[ "${#lines[@]}" -eq 2 ]
}

@test "timeline: no log, or no event, is an empty answer" {
	make_record "$ONE"
	run timeline --id "$ONE"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	add_event "$TWO" launch
	run timeline --id "$ONE"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "timeline: unknown id exits 1" {
	run --separate-stderr timeline --id nope
	[ "$status" -eq 1 ]
	[[ "$stderr" == *"file does not exist"* ]]
}

@test "timeline: --id - and several ids" {
	make_record "$ONE"
	make_record "$TWO"
	add_event "$ONE" launch
	add_event "$TWO" exit
	run bash -c '"$1/workcell-session-list" | "$1/workcell-session-timeline" --id -' bash "$bin"
	[ "$(events)" = "exit launch " ]
	run --separate-stderr timeline --id "$ONE" --id nope --id "$TWO"
	[ "$status" -eq 1 ]
	[ "$(events)" = "launch exit " ]
}

@test "timeline: a line above 1 MiB anywhere fails it before anything is printed" {
	make_record "$ONE"
	add_event "$ONE" launch
	head -c 1048577 /dev/zero | tr '\0' x >>"$log"
	run --separate-stderr timeline --id "$ONE"
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[[ "$stderr" == *"line 2 has more than 1048576 bytes"* ]]
}

@test "timeline: a log that others may read, a link or a FIFO is refused" {
	make_record "$ONE"
	add_event "$ONE" launch
	chmod 644 "$log"
	run timeline --id "$ONE"
	[ "$status" -eq 1 ]
	chmod 600 "$log"
	mv "$log" "$HOME/log"
	ln -s "$HOME/log" "$log"
	run timeline --id "$ONE"
	[ "$status" -eq 1 ]
	rm "$log"
	mkfifo -m 600 "$log"
	run timeout 10 "$bin/workcell-session-timeline" --id "$ONE"
	[ "$status" -eq 1 ]
}

@test "timeline: a record that names another log is refused" {
	make_record "$ONE" audit_log_path=/srv/other.log
	add_event "$ONE" launch
	run --separate-stderr timeline --id "$ONE"
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[[ "$stderr" == *"canonical location"* ]]
}

@test "timeline: a damaged line is printed for the session that it names, the rest all the same" { # J05
	make_record "$ONE"
	add_event "$ONE" launch
	printf 'garbage\n\0\0\0\nevent=x session_id=%s bare\nsession_id=%s $'"'"'open\n' "$ONE" "$ONE" >>"$log"
	add_event "$ONE" exit
	run timeline --id "$ONE"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 4 ]
}

@test "timeline: raw control bytes reach a pipe as they are and a terminal escaped" { # D10
	make_record "$ONE"
	printf 'event=x session_id=%s argv=a\x1b[2J\x9b31m\xc2\x9b\xe2\x80\xaeb \n' "$ONE" >>"$log"
	chmod 600 "$log"
	timeline --id "$ONE" | cmp - <(sed 's/ $//' "$log")
	run on_terminal "$bin/workcell-session-timeline" --id "$ONE"
	[ "$status" -eq 0 ]
	[[ "$output" == *'a\x1b[2J\x9b31m\x9b\u202eb'* ]]
}

@test "timeline: usage errors exit 2" {
	for words in "" "--id" "x" "--id $ONE --all" "--id - --follow" "--id $ONE --id $ONE --follow"; do
		run --separate-stderr bash -c "'$bin/workcell-session-timeline' $words"
		[ "$status" -eq 2 ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
}

@test "timeline: changes and locks nothing" {
	make_record "$ONE"
	add_event "$ONE" launch
	before=$(tree_of)
	exec 9<"$log.lock.guard"
	flock 9
	run timeout 10 "$bin/workcell-session-timeline" --id "$ONE"
	exec 9<&-
	[ "$status" -eq 0 ]
	[ "$(tree_of)" = "$before" ]
}

@test "timeline: needs no installed package and loads nothing that is slow" {
	make_record "$ONE"
	add_event "$ONE" launch
	loads_little workcell-session-timeline --id "$ONE"
}

@test "timeline: --json prints each event decoded, one object a line that fits its schema" { # D08, D13, J09
	make_record "$ONE"
	make_record "$TWO"
	add_event "$ONE" launch agent=codex
	add_event "$TWO" launch
	add_event "$ONE" command $'argv=it\'s\ntwo "lines" \x1b[2J \\ session_id='"$TWO" "record=a=b"
	timeline --id "$ONE" --json >"$HOME/events"
	python3 -c '
import json, sys
sys.path.insert(0, sys.argv[1])
from workcell import schema
events = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
for event in events:
    schema.check("audit-event", event)
assert [event["event"] for event in events] == ["launch", "command"]
assert events[1]["argv"] == "it\x27s\ntwo \"lines\" \x1b[2J \\ session_id=" + sys.argv[3], events[1]
assert events[1]["record"] == "a=b"
' "$lib" "$HOME/events" "$TWO"
}

@test "timeline: --json leaves out what cannot be decoded, and says so" { # J05
	make_record "$ONE"
	add_event "$ONE" launch
	printf 'event=x session_id=%s bare\nevent=y session_id=%s \n' "$ONE" "$ONE" >>"$log"
	add_event "$ONE" exit
	run --separate-stderr timeline --id "$ONE" --json
	[ "$status" -eq 1 ]
	[ "$(jq -r .event <<<"$output" | tr '\n' ' ')" = "launch exit " ]
	[ "${#stderr_lines[@]}" -eq 2 ]
	[[ "$stderr" == *"bare word"*"without timestamp"* ]]
}

@test "timeline: --follow of a session that is over, or lost, prints what there is and ends" {
	make_record "$ONE"
	add_event "$ONE" launch
	run --separate-stderr timeout 20 "$bin/workcell-session-timeline" --id "$ONE" --follow
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$(events)" = "launch " ]
	make_record "$TWO" status=running live_status=running exit_status= final_assurance= finished_at= monitor_pid=1 \
		"session_audit_dir=$profile/session-audit.gone42"
	add_event "$TWO" launch
	run --separate-stderr timeout 20 "$bin/workcell-session-timeline" --id "$TWO" --follow
	[ "$status" -eq 0 ]
	[ "$(events)" = "launch " ]
	[[ "$stderr" == *"$TWO: lost"* ]]
}
