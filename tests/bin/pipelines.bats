#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load helper

setup() {
	make_world
	PATH=$bin:$PATH
	readme=$here/../../README.md
}

@test "pipelines: that of the README prints the last lines of the sessions that were killed, as it is printed" {
	now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
	local number=0
	for exit_status in 137 1 137; do
		number=$((number + 1))
		id=session-$number
		cast=$profile/transcripts/$id.cast
		mkdir -p -m 700 "${cast%/*}"
		printf '{"version": 2, "width": 80, "height": 24}\n[0.1, "o", "a\\r\\nb of %s\\r\\nc\\r\\nd\\r\\n"]\n' "$id" >"$cast"
		chmod 600 "$cast"
		make_record "$id" status=failed "exit_status=$exit_status" "started_at=$now" "transcript_log_path=$cast"
	done
	make_record old status=failed exit_status=137 started_at=2026-03-02T08:15:00Z
	awk '/^## Commands/ { here = 1 } /^```$/ { block = 0 } here && block { print } /^```sh$/ { block = 1 } /^## Agents/ { exit }' \
		"$readme" >"$BATS_TEST_TMPDIR/pipeline"
	for word in "session list" "session show" jq xargs; do
		grep -q "$word" "$BATS_TEST_TMPDIR/pipeline"
	done
	run --separate-stderr bash -euo pipefail "$BATS_TEST_TMPDIR/pipeline"
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$output" = $'b of session-3\nc\nd\nb of session-1\nc\nd' ]
}

@test "pipelines: where nothing is listed nothing is run" {
	export PATH
	run --separate-stderr bash -euo pipefail -c 'workcell session list --status running --ids | xargs -r -n 1 workcell session stop --id'
	[ "$status" -eq 0 ]
	[ -z "$output$stderr" ]
}

@test "pipelines: ids go from any form of list to each command that reads" {
	make_record "$ONE"
	add_event "$ONE" launch
	seal "$ONE"
	export PATH
	for form in "list" "list --verbose" "list --ids" "list --human" "list --json | jq -r '.[].session_id'" "list --jsonl | jq -r .session_id"; do
		for reader in "show --id - --field session_id" "timeline --id -" "verify --id -"; do
			run --separate-stderr bash -euo pipefail -c "workcell session $form | workcell session $reader"
			[ "$status" -eq 0 ]
			[ -z "$stderr" ]
			[[ "$output" == *"$ONE"* ]]
		done
	done
}
