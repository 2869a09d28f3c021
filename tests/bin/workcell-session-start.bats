#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load sessions

setup_file() {
	make_sessions_world
}

teardown_file() {
	end_sessions
}

run_start() {
	run --separate-stderr "$bin/workcell-session-start" --workspace "$REPO" "$@"
}

@test "start: prints key=value lines, the id first, and exits 0 while the agent runs" {
	run_start --agent command --target bubblewrap -- sleep 1000
	[ "$status" -eq 0 ]
	[ -z "$stderr" ] || [[ $stderr == "workcell-session-start: network host: "* ]]
	[[ ${lines[0]} =~ ^session_id=[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}$ ]]
	[ "${lines[1]}" = status=running ]
	[ "${lines[2]}" = live_status=running ]
	[ "${lines[3]}" = control_mode=detached ]
	[ "${lines[-1]%%=*}" = transcript_log_path ]
	[ "${#lines[@]}" -eq 28 ]
	[ "$(grep -cv '^[a-z_]*=' <<<"$output")" -eq 0 ]
}

@test "start: ends at once in a pipeline, though the agent goes on" {
	run --separate-stderr bash -c "'$bin/workcell-session-start' --workspace '$REPO' --agent command -- sleep 1000 | head -n 1"
	[ "$status" -eq 0 ]
	run "$bin/workcell-session-list"
	[[ $output == *$'\trunning\t'* ]]
}

@test "start: --json prints one object and nothing else" {
	run_start --agent command --target bubblewrap --json -- true
	[ "$status" -eq 0 ]
	[ "$(json 'it["control_mode"]')" = detached ]
	[ "$(json 'it["workspace_origin"]')" = "$REPO" ]
}

@test "start: what it chose by itself is said on standard error" {
	run_start --agent command -- true
	[ "$status" -eq 0 ]
	[[ $stderr == *"target bubblewrap: chosen by auto"* ]]
	[ "$(value target_provider)" = bubblewrap ]
}

@test "start: the agent's arguments arrive as they are" {
	id=$(start -- sh -c 'printf "<%s>" "$@"; exit $#' sh 'a  b' '' -- --help '*' $'c\nd')
	run "$bin/workcell-session-wait" --id "$id"
	[ "$status" -eq 6 ]
	run python3 -c 'import json,sys; print("".join(e[2] for e in map(json.loads, list(open(sys.argv[1]))[1:])))' \
		"$WORKCELL_STATE_ROOT"/targets/*/*/*/transcripts/"$id.cast"
	[ "${output//$'\r'/}" = $'<a  b><><--><--help><*><c\nd>' ]
}

@test "start: a refusal is one line on standard error, exit 2, and leaves no record" {
	before=$("$bin/workcell-session-list")
	run_start
	[ "$status" -eq 2 ]
	[[ $stderr == "workcell-session-start: option --agent: is required; "* ]]
	for words in "--agent nobody" "--agent command" "--agent command --mode lax -- true" "--agent command --fast -- true" \
		"--agent command --env NOT_SET -- true" "--agent command -- no-such-program"; do
		# shellcheck disable=SC2086
		run_start $words
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[[ ${stderr_lines[-1]} == "workcell-session-start: "* ]]
	done
	[ "$("$bin/workcell-session-list")" = "$before" ]
}

@test "start: --dry-run prints a command for the shell and starts nothing" {
	before=$("$bin/workcell-session-list")
	run_start --agent command --target bubblewrap --dry-run -- echo 'a b'
	[ "$status" -eq 0 ]
	[[ $output == *bwrap*"pty_adapter.py"*" -- "*"echo 'a b'" ]]
	[ "${#lines[@]}" -eq 1 ]
	[ "$("$bin/workcell-session-list")" = "$before" ]
}

@test "start: works on the current folder unless told otherwise" {
	cd "$REPO"
	run --separate-stderr "$bin/workcell-session-start" --agent command --target bubblewrap -- true
	[ "$status" -eq 0 ]
	[ "$(value workspace_origin)" = "$REPO" ]
	cd "$HOME"
	run --separate-stderr "$bin/workcell-session-start" --agent command --target bubblewrap -- true
	[ "$status" -eq 2 ]
	[[ $stderr == *"too broad"* ]]
}
