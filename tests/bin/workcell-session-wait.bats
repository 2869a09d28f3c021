#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load sessions

setup_file() {
	make_sessions_world
}

teardown_file() {
	end_sessions
}

run_wait() {
	run --separate-stderr "$bin/workcell-session-wait" "$@"
}

@test "wait: ends as the agent did, with nothing to say" {
	for code in 0 3 255; do
		run_wait --id "$(start -- sh -c "exit $code")"
		[ "$status" -eq "$code" ]
		[ -z "$output$stderr" ]
	done
}

@test "wait: a signal is 128 and its number" {
	run_wait --id "$(start -- sh -c 'kill -SEGV $$')"
	[ "$status" -eq 139 ]
}

@test "wait: --json tells how it ended" {
	run_wait --id "$(start -- sh -c 'exit 3')" --json
	[ "$status" -eq 3 ]
	[ "$(json 'it["status"], it["exit_status"], it["reason"]')" = "('failed', '3', 'exited')" ]
}

@test "wait: gives up with 124 and says so, and the session goes on" {
	id=$(start -- sleep 1000)
	run_wait --id "$id" --timeout 0.1
	[ "$status" -eq 124 ]
	[ -z "$output" ]
	[ "$stderr" = "workcell-session-wait: $id: still running after 0.1 s" ]
	run "$bin/workcell-session-list"
	[[ $output == *"$id"$'\trunning'* ]]
}

@test "wait: can be used as a condition" {
	id=$(start -- sh -c 'exit 1')
	if "$bin/workcell-session-wait" --id "$id"; then false; else [ $? -eq 1 ]; fi
	id=$(start -- true)
	"$bin/workcell-session-wait" --id "$id" && "$bin/workcell-session-verify" --id "$id"
}

@test "wait: wrong words exit 2, an unknown session 1" {
	for words in "" "--id" "--id a --timeout soon" "--id a --forever" "--id a --id b --timeout x"; do
		# shellcheck disable=SC2086
		run_wait $words
		[ "$status" -eq 2 ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
	run_wait --id 20260102T030405Z-0a1b2c3d
	[ "$status" -eq 1 ]
	[[ $stderr == *"file does not exist"* ]]
}
