#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load sessions

setup_file() {
	make_sessions_world
}

teardown_file() {
	end_sessions
}

run_stop() {
	run --separate-stderr "$bin/workcell-session-stop" "$@"
}

@test "stop: returns when the end is written down, and says it" {
	id=$(start -- sleep 1000)
	run_stop --id "$id"
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "${lines[0]}" = "session_id=$id" ]
	[ "${lines[1]}" = stop_requested=1 ]
	[ "${lines[2]}" = status=exited ]
	[ "${lines[3]}" = live_status=stopped ]
	run "$bin/workcell-session-verify" --id "$id"
	[ "$status" -eq 0 ]
}

@test "stop: again is no error and prints the same" {
	id=$(start -- sleep 1000)
	run_stop --id="$id"
	first=$output
	run_stop --id="$id" --force
	[ "$status" -eq 0 ]
	[ "$output" = "$first" ]
}

@test "stop: --json prints one object with the exit status" {
	id=$(start -- sleep 1000)
	run_stop --id "$id" --force --json
	[ "$status" -eq 0 ]
	[ "$(json 'it["stop_requested"], it["exit_status"]')" = "(True, '137')" ]
}

@test "stop: ends what list names, one by one" {
	start -- sleep 1000
	start -- sleep 1000
	"$bin/workcell-session-list" | awk -F '\t' '$3 == "running" { print $1 }' |
		xargs -n 1 "$bin/workcell-session-stop" --force --id >"$BATS_TEST_TMPDIR/out"
	[ "$(grep -c '^live_status=stopped' "$BATS_TEST_TMPDIR/out")" -eq 2 ]
	run "$bin/workcell-session-list"
	[[ $output != *$'\trunning\t'* ]]
}

@test "stop: wrong words exit 2, an unknown session 1" {
	for words in "" "--id" "--id a --grace soon" "--id a --hard" "--id a --id b" "a"; do
		# shellcheck disable=SC2086
		run_stop $words
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
	run_stop --id 20260102T030405Z-0a1b2c3d
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[[ $stderr == "workcell-session-stop: 20260102T030405Z-0a1b2c3d: no such session, file does not exist; "* ]]
}
