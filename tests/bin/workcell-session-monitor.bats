#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load sessions

setup_file() {
	make_sessions_world
}

teardown_file() {
	end_sessions
}

run_monitor() {
	run --separate-stderr "$bin/workcell-session-monitor" "$@"
}

spec_of() {
	echo "$("$bin/workcell-session-show" --id "$1" --text | sed -n 's/^session_audit_dir=//p')/launch-spec.json"
}

@test "monitor: wrong words exit 2" {
	for words in "" "--state-file" "--state-file /no/such/file" "--state-file /tmp" "--once"; do
		# shellcheck disable=SC2086
		run_monitor $words
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
	run_monitor --state-file $'/tmp/a\nb'
	[ "$status" -eq 2 ]
	[[ $stderr == *newline* ]]
}

@test "monitor: a file that is no launch spec is refused" {
	echo '{"version": 1}' >"$BATS_TEST_TMPDIR/launch-spec.json"
	run_monitor --state-file "$BATS_TEST_TMPDIR/launch-spec.json"
	[ "$status" -eq 1 ]
	[ "${#stderr_lines[@]}" -eq 1 ]
}

@test "monitor: refuses a session that has one" {
	id=$(start -- sleep 1000)
	run_monitor --state-file "$(spec_of "$id")"
	[ "$status" -eq 2 ]
	[ "$stderr" = "workcell-session-monitor: $id: has a monitor already; see workcell-session-list" ]
}

@test "monitor: takes over a session whose monitor died, says nothing, and writes the end down" {
	id=$(start -- sh -c "trap '' HUP; echo is up; read line; while :; do sleep 1000; done")
	until_true says "$id" 'is up'
	spec=$(spec_of "$id")
	pid=$("$bin/workcell-session-show" --id "$id" --text | sed -n 's/^monitor_pid=//p')
	kill -KILL "$pid"
	"$bin/workcell-session-monitor" --state-file "$spec" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	second=$!
	until_true bash -c "'$bin/workcell-session-list' | grep -q '$id.*	running	running	'"
	"$bin/workcell-session-stop" --id "$id" --force
	wait "$second"
	[ ! -s "$BATS_TEST_TMPDIR/out" ]
	run "$bin/workcell-session-wait" --id "$id"
	[ "$status" -eq 137 ]
}
