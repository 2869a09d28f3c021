#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load sessions

setup_file() {
	make_sessions_world
	ID=$(start -- sh -c 'stty -echo; echo is up; while IFS= read -r line; do echo "got <$line>"; done')
	export ID
	until_true says "$ID" 'is up'
}

teardown_file() {
	end_sessions
}

run_send() {
	run --separate-stderr "$bin/workcell-session-send" --id "$ID" "$@"
}

@test "send: types a line and tells what was taken" {
	run_send --message 'hello  there'
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "${lines[0]}" = "session_id=$ID" ]
	[ "${lines[1]}" = sent_bytes=13 ]
	[ "$(value control_mode)" = detached ]
	until_true says "$ID" 'got <hello  there>'
}

@test "send: several lines, a file, and a message that looks like an option" {
	run_send --message $'one\ntwo'
	[ "$(value sent_bytes)" = 8 ]
	printf 'from a file' >"$BATS_TEST_TMPDIR/message"
	run_send --file "$BATS_TEST_TMPDIR/message"
	[ "$(value sent_bytes)" = 12 ]
	run_send --message --json
	[ "$(value sent_bytes)" = 7 ]
	for word in one two 'from a file' --json; do
		until_true says "$ID" "got <$word>"
	done
}

@test "send: takes its message from a pipe" {
	run --separate-stderr bash -c "printf 'from a pipe' | '$bin/workcell-session-send' --id '$ID' --file -"
	[ "$status" -eq 0 ]
	until_true says "$ID" 'got <from a pipe>'
}

@test "send: without the newline nothing is submitted until it comes" {
	run_send --message begun --no-newline
	[ "$(value sent_bytes)" = 5 ]
	run_send --message ' and ended'
	until_true says "$ID" 'got <begun and ended>'
}

@test "send: --json prints one object" {
	run_send --message x --json
	[ "$status" -eq 0 ]
	[ "$(json 'it["sent_bytes"]')" = 2 ]
	[ "$(json 'it["status"]')" = running ]
}

@test "send: wrong words exit 2 and send nothing" {
	for words in "" "--message" "--message x --file -" "--message x --secret" "--message x --timeout soon" "--message x --fast"; do
		# shellcheck disable=SC2086
		run_send $words
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
	run --separate-stderr "$bin/workcell-session-send" --message x
	[ "$status" -eq 2 ]
	[[ $stderr == *"--id: is required"* ]]
}

@test "send: to nobody, or to a session that is over, exits 1" {
	run --separate-stderr "$bin/workcell-session-send" --id 20260102T030405Z-0a1b2c3d --message x
	[ "$status" -eq 1 ]
	[[ $stderr == *"file does not exist"* ]]
	over=$(start -- true)
	"$bin/workcell-session-wait" --id "$over"
	run --separate-stderr "$bin/workcell-session-send" --id "$over" --message x
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[[ $stderr == *"not running any more"* ]]
}
