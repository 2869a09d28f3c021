#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load helper

setup() {
	make_world
}

export_() {
	"$bin/workcell-session-export" "$@"
}

@test "export: json is the stored record and the session's lines, and fits its schema" { # D08, D13
	make_active "$ONE" container_name=n workspace=$'/srv/\x01\x1b\x7f"\\/<é\tx'
	make_record "$TWO"
	add_event "$ONE" launch
	add_event "$TWO" command "argv=x session_id=$ONE"
	add_event "$ONE" command $'argv=two\nlines <&> session_id='"$TWO"
	export_ --id "$ONE" >"$HOME/out.json"
	python3 -c '
import json, sys
sys.path.insert(0, sys.argv[1])
from workcell import schema
value = json.load(open(sys.argv[2], encoding="utf-8"))
schema.check("session-export", value)
assert value["session"]["workspace"] == "/srv/\x01\x1b\x7f\"\\/<é\tx"
assert value["session"]["live_status"] == "running"
lines = open(sys.argv[3], encoding="utf-8").read().split("\n")
assert value["audit_records"] == [lines[0].strip(), lines[2].strip()], value
' "$lib" "$HOME/out.json" "$log"
	make_record third
	[ "$(export_ --id third | jq 'has("audit_records")')" = false ]
}

@test "export: ocsf is one event a line, and another session's bad line does not keep it from being exported" { # D50
	make_record "$ONE"
	add_event "$ONE" launch agent=codex
	printf 'event=x session_id=other argv=x\\ session_id=%s event=y \n' "$ONE" >>"$log"
	printf "event=x session_id=other argv=\$'a session_id=%s \n" "$ONE" >>"$log"
	printf 'event=command session_id=other argv=a\\ session_id=%s\n' "$ONE" >>"$log"
	add_event "$ONE" exit exit_status=0
	run --separate-stderr export_ --id "$ONE" --format ocsf
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$(jq -r .message <<<"$output")" = "workcell session $ONE Stop"$'\nworkcell audit launch\nworkcell audit exit' ]
}

@test "export: a line of the session's own that is ambiguous exports nothing as ocsf" {
	make_record "$ONE"
	add_event "$ONE" launch
	printf 'event=x event=y session_id=%s \n' "$ONE" >>"$log"
	run --separate-stderr export_ --id "$ONE" --format ocsf --output "$HOME/out"
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[ ! -e "$HOME/out" ]
	run export_ --id "$ONE"
	[ "$status" -eq 0 ]
	[ "$(jq '.audit_records | length' <<<"$output")" -eq 2 ]
}

@test "export: no piece of a secret is in ocsf, however it was sent or written, and digests and ids are" { # K05, K06
	secret=sk-ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVW # no piece of it can be one of a digest
	digest=$(printf 'a%063d' 1)
	make_record "$ONE" "workspace=$HOME/api_key=$secret" git_branch="work-$secret" container_name=box git_head=5f1d7a84db00d2fce00b31a7fc73224f987d3d5b
	for cut in 1 5 20; do
		add_event "$ONE" command "argv=${secret:0:cut}"
		add_event "$ONE" command "argv=${secret:cut}"
	done
	add_event "$ONE" command $'argv=\x1b[31m'"${secret:0:9}"$'\x1b[0m\n'"${secret:9}"
	add_event "$ONE" command "argv=$(base64 <<<"$secret")" "note=$secret" "$secret=x"
	add_event "$ONE" launch "endpoints=token=$secret" "injection_policy_sha256=$digest" "workspace=$HOME/repo"
	run --separate-stderr export_ --id "$ONE" --format ocsf
	[ "$status" -eq 0 ]
	for at in $(seq 0 4 32); do
		[[ "$output" != *"${secret:at:4}"* ]]
	done
	[[ "$output" != *"$(base64 <<<"$secret" | cut -c 1-12)"* && "$output" != *"$HOME"* ]]
	[[ "$output" == *"$ONE"* && "$output" == *"$digest"* && "$output" == *5f1d7a84db00d2fce00b31a7fc73224f987d3d5b* ]]
	[ "$(jq -r '.unmapped."audit.record_digest" // empty' <<<"$output" | grep -c '^[0-9a-f]\{64\}$')" -eq 9 ]
	[[ "$output" == *'"audit.argv":"[REDACTED-FREEFORM]"'* ]]
}

@test "export: a name that only begins like a secret is no secret, and one whose quote never closes is" { # D43
	make_record "$ONE" git_branch=task-aaaaaaaaaaaaaaaaaaaaaaaaaaaa 'workspace=/srv/password="open and more' "workspace_origin=/srv$HOME/x"
	run export_ --id "$ONE" --format ocsf
	[ "$(jq -r '.unmapped."session.git_branch"' <<<"$output")" = task-aaaaaaaaaaaaaaaaaaaaaaaaaaaa ]
	[ "$(jq -r '.unmapped."session.workspace"' <<<"$output")" = '/srv/password=[REDACTED]' ]
	[ "$(jq -r '.unmapped."session.workspace_origin"' <<<"$output")" = "/srv$HOME/x" ]
}

@test "export: --output replaces a file whole, for its owner alone, and prints where" { # D20
	make_record "$ONE"
	add_event "$ONE" launch
	export_ --id "$ONE" >"$BATS_TEST_TMPDIR/expected"
	mkdir "$HOME/out"
	cd "$HOME/out"
	echo "old, and longer than the new one" >a.json
	chmod 644 a.json
	ln a.json kept
	(umask 0 && export_ --id "$ONE" --output ./x/../a.json >"$BATS_TEST_TMPDIR/said")
	[ "$(cat "$BATS_TEST_TMPDIR/said")" = "session_export=$HOME/out/a.json" ]
	cmp a.json "$BATS_TEST_TMPDIR/expected"
	[ "$(stat -c %a a.json)" = 600 ]
	[ "$(cat kept)" = "old, and longer than the new one" ]
	export_ --id "$ONE" --output new/deep/b.json
	cmp new/deep/b.json "$BATS_TEST_TMPDIR/expected"
	HOME=$HOME export_ --id "$ONE" --output '~/out/c.json'
	cmp c.json "$BATS_TEST_TMPDIR/expected"
	export_ --id "$ONE" --output --d.json
	cmp ./--d.json "$BATS_TEST_TMPDIR/expected"
	[ "$(find . -name '*.tmp' | wc -l)" -eq 0 ]
}

@test "export: --output follows no link and replaces nothing but a file" {
	make_record "$ONE"
	cd "$HOME"
	mkdir real folder
	echo precious >real/file
	ln -s real link
	ln -s real/file file-link
	ln -s nowhere dangling
	mkfifo -m 600 fifo
	before=$(find . -printf '%p %y %s %l\n' | sort)
	for path in link/new file-link dangling dangling/x fifo folder link/ /dev/null /proc/self/x; do
		run --separate-stderr timeout 10 "$bin/workcell-session-export" --id "$ONE" --output "$path"
		[ "$status" -eq 1 ]
		[ -z "$output" ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
	[ "$(find . -printf '%p %y %s %l\n' | sort)" = "$before" ]
	[ "$(cat real/file)" = precious ]
}

@test "export: a full disk leaves the old file and no other" {
	[ "$(id -u)" -eq 0 ] || skip "needs to mount a small disk"
	unshare --mount true 2>/dev/null || skip "may not mount"
	make_record "$ONE" "workspace=/$(printf '%0100000d' 0)"
	mkdir "$HOME/small"
	# shellcheck disable=SC2016
	run unshare --mount bash -c '
		mount -t tmpfs -o size=64k none "$3" && echo old >"$3/out" || exit 9
		"$1/workcell-session-export" --id "$2" --output "$3/out"
		echo "status $?, $(cat "$3/out"), $(ls -A "$3" | wc -l) file"' bash "$bin" "$ONE" "$HOME/small"
	[[ "$output" == *"No space left"*"status 1, old, 1 file" ]]
}

@test "export: a log or record that cannot be trusted exports nothing" {
	make_record "$ONE"
	add_event "$ONE" launch
	chmod 644 "$log"
	for form in json ocsf; do
		run --separate-stderr export_ --id "$ONE" --format "$form"
		[ "$status" -eq 1 ]
		[ -z "$output" ]
	done
	chmod 600 "$log"
	"$helper" record-write "$(record_of "$ONE")" audit_log_path=/srv/other.log
	run --separate-stderr export_ --id "$ONE"
	[ "$status" -eq 1 ]
	[[ "$stderr" == *"canonical location"* ]]
	run --separate-stderr export_ --id nope
	[ "$status" -eq 1 ]
	[[ "$stderr" == *"file does not exist"* ]]
}

@test "export: a terminal gets no control character of a record or line" { # D10
	make_record "$ONE" workspace=$'/srv/\x1b[2J\xe2\x80\xaex\xc2\x9b\x7f'
	printf 'event=x session_id=%s argv=a\x1b[2J\x9b31m\xc2\x9b\xe2\x80\xaeb \n' "$ONE" >>"$log"
	chmod 600 "$log"
	for form in json ocsf; do
		run on_terminal "$bin/workcell-session-export" --id "$ONE" --format "$form"
		[ "$status" -eq 0 ]
		[[ "$output" != *$'\x1b'* && "$output" != *$'\xe2\x80\xae'* && "$output" != *$'\xc2\x9b'* && "$output" != *$'\x7f'* ]]
		export_ --id "$ONE" --format "$form" | jq . >/dev/null
	done
}

@test "export: usage errors exit 2" {
	for words in "" "--id" "--id $ONE --format xml" "--id $ONE --format" "--id $ONE --output" "--id $ONE --frobnicate"; do
		# shellcheck disable=SC2086
		run --separate-stderr export_ $words
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
}

@test "export: changes and locks nothing of the state" {
	make_record "$ONE"
	add_event "$ONE" launch
	before=$(tree_of)
	exec 9<"$log.lock.guard"
	flock 9
	for form in json ocsf; do
		run timeout 10 "$bin/workcell-session-export" --id "$ONE" --format "$form"
		[ "$status" -eq 0 ]
	done
	exec 9<&-
	[ "$(tree_of)" = "$before" ]
}
