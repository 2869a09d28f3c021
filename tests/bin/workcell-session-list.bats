#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load helper

setup() {
	make_world
}

list() {
	"$bin/workcell-session-list" "$@"
}

ids() {
	tail -n +2 <<<"$output" | cut -f 1
}

@test "list: a heading and one line for each session, newest start first" {
	make_record "$ONE"
	make_record "$TWO" started_at=2026-03-02T09:30:00Z
	run --separate-stderr list
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "${lines[0]}" = $'session_id\tstatus\tlive_status\tcontrol\tagent\tmode\tprofile\tstarted_at\tassurance\tworkspace' ]
	[ "$(ids)" = "$TWO"$'\n'"$ONE" ]
}

@test "list: nothing at all is said in words, and is an empty array" {
	run list
	[ "$status" -eq 0 ]
	[ "$output" = "No recorded sessions." ]
	run list --json
	[ "$output" = "[]" ]
}

@test "list: a bad record hides no good one, costs one line and the exit status" { # D10, G02
	make_record "$ONE"
	make_record "$TWO"
	echo '{' >"$profile/sessions/torn.json"
	: >"$profile/sessions/empty.json"
	mkfifo -m 600 "$profile/sessions/fifo.json"
	cp "$(record_of "$ONE")" "$profile/sessions/open.json"
	chmod 644 "$profile/sessions/open.json"
	chmod 600 "$profile/sessions/torn.json" "$profile/sessions/empty.json"
	for form in "" --verbose --parallel --json; do
		# shellcheck disable=SC2086
		run --separate-stderr list $form
		[ "$status" -eq 1 ]
		[[ "$output" == *"$ONE"* && "$output" == *"$TWO"* ]]
		[ "${#stderr_lines[@]}" -eq 4 ]
		for name in torn empty fifo open; do
			[ "$(grep -c "^workcell-session-list: $profile/sessions/$name.json: " <<<"$stderr")" -eq 1 ]
		done
	done
}

@test "list: a bad record that a filter leaves out is still said" { # D10
	make_record "$ONE"
	echo '{' >"$profile/sessions/torn.json"
	chmod 600 "$profile/sessions/torn.json"
	run --separate-stderr list --profile wcl-other
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 1 ]
}

@test "list: a record with an unknown field, an empty or a null one is named with the field" {
	make_record "$ONE"
	sed 's/"agent"/"colour": "blue",\n  "agent"/' "$(record_of "$ONE")" >"$profile/sessions/x.json"
	sed 's/"agent": "codex"/"agent": null/' "$(record_of "$ONE")" >"$profile/sessions/y.json"
	chmod 600 "$profile"/sessions/*.json
	run --separate-stderr list
	[ "$status" -eq 1 ]
	[ "$(ids)" = "$ONE" ]
	[[ "$stderr" == *"x.json: colour: "* && "$stderr" == *"y.json: agent: "* ]]
}

@test "list: a folder that others may write to is said, the other folders are listed" {
	make_record "$ONE"
	cp -rp "$profile" "${profile%/*}/wcl-open"
	chmod 777 "${profile%/*}/wcl-open/sessions"
	run --separate-stderr list
	[ "$status" -eq 1 ]
	[ "$(ids)" = "$ONE" ]
	[[ "$stderr" == *"wcl-open/sessions: "*"others may change"* ]]
}

@test "list: a home and a state root behind links are read" { # D35
	make_record "$ONE"
	mkdir -m 700 "$BATS_TEST_TMPDIR/far"
	mv "$HOME" "$BATS_TEST_TMPDIR/far/home"
	ln -s far/home "$HOME"
	mkdir -p -m 700 "$HOME/.local/state"
	mv "$WORKCELL_STATE_ROOT" "$HOME/.local/state/real"
	ln -s real "$HOME/.local/state/workcell"
	unset WORKCELL_STATE_ROOT
	run --separate-stderr list
	[ "$status" -eq 0 ]
	[ "$(ids)" = "$ONE" ]
}

@test "list: --workspace is made absolute and resolved, and finds clones by their origin" {
	mkdir -p "$HOME/repo/sub"
	make_record "$ONE" "workspace=$HOME/repo"
	make_record "$TWO" "workspace=$HOME/clone" "workspace_origin=$HOME/repo"
	make_record other
	ln -s repo "$HOME/link"
	cd "$HOME"
	for path in repo ./repo/ repo/sub/.. '~/repo' "$HOME/link"; do
		run list --workspace "$path"
		[ "$status" -eq 0 ]
		[ "$(ids)" = "$TWO"$'\n'"$ONE" ]
	done
	run list --workspace "$HOME"
	[ "$output" = "No recorded sessions." ]
}

@test "list: --workspace without a value is a usage error and not the current folder" { # D21
	make_record "$ONE"
	for words in "--workspace" "--workspace --json" "--workspace ''"; do
		run --separate-stderr bash -c "'$bin/workcell-session-list' $words"
		[ "$status" -eq 2 ]
		[ -z "$output" ]
	done
}

@test "list: --profile and --colima-profile are one option, and check the name" {
	make_record "$ONE"
	for option in --profile --colima-profile; do
		run list "$option" wcl-demo
		[ "$(ids)" = "$ONE" ]
		run list "$option" ../etc
		[ "$status" -eq 2 ]
	done
}

@test "list: at most one form" {
	for words in "--json --verbose" "--json --parallel" "--verbose --parallel"; do
		run --separate-stderr bash -c "'$bin/workcell-session-list' $words"
		[ "$status" -eq 2 ]
		[[ "$stderr" == *"at most one"* ]]
	done
}

@test "list: --json prints whole records that parse, however odd their text" { # D08
	make_record "$ONE" workspace=$'/srv/\x01\x1b\x7f"\\/<é\tx'
	list --json | python3 -c '
import json, sys
(record,) = json.load(sys.stdin)
assert record["workspace"] == "/srv/\x01\x1b\x7f\"\\/<é\tx", ascii(record["workspace"])
assert record["version"] == 1
'
}

@test "list: --parallel groups by the workspace that sessions were started from" {
	make_record "$ONE" workspace=/b
	make_record "$TWO" workspace=/clone workspace_origin=/a git_branch=work
	run list --parallel
	[ "${lines[0]}" = "origin=/a" ]
	[ "${lines[1]}" = "sessions=1" ]
	[ "${lines[2]}" = "session_id=$TWO" ]
	[[ "$output" == *$'\ngit_branch=work\n'*$'\norigin=/b\n'* ]]
}

@test "list: nothing in a record drives a terminal or forges a row" { # D10
	make_record "$ONE" workspace=$'/srv/\x1b[2J\xe2\x80\xaex\xc2\x9b'
	for form in "" --verbose --parallel --json; do
		# shellcheck disable=SC2086
		run on_terminal "$bin/workcell-session-list" $form
		[ "$status" -eq 0 ]
		[[ "$output" != *$'\x1b'* && "$output" != *$'\xe2\x80\xae'* && "$output" != *$'\xc2\x9b'* ]]
	done
	run list
	[[ "$output" == *$'\x1b[2J'* ]]
}

@test "list: the name of a bad file drives no terminal either" { # D10
	make_record "$ONE"
	echo x >"$profile/sessions/"$'a\x1b[2Jb.json'
	chmod 600 "$profile"/sessions/*.json
	run --separate-stderr list
	[ "$status" -eq 1 ]
	[[ "$stderr" == *'a\x1b[2Jb.json'* ]]
}

@test "list: what another writer recorded as running is shown as it was recorded" {
	make_active "$ONE" container_name=n
	run list
	[ "$(tail -n 1 <<<"$output" | cut -f 1-4)" = "$ONE"$'\trunning\trunning\tdetached' ]
}

@test "list: a file that vanishes while records are written is no error" { # D10
	make_record "$ONE"
	cat >"$BATS_TEST_TMPDIR/churn.py" <<-'EOF'
		import os, sys
		path = sys.argv[1]
		with open(path, "rb") as file:
		    data = file.read().replace(sys.argv[2].encode(), b"churn")
		other = os.path.join(os.path.dirname(path), "churn.json")
		for _ in range(4000):
		    with open(os.open(other + ".tmp", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
		        file.write(data)
		    os.rename(other + ".tmp", other)
		    os.unlink(other)
	EOF
	python3 "$BATS_TEST_TMPDIR/churn.py" "$(record_of "$ONE")" "$ONE" 3>&- &
	churner=$!
	for _ in 1 2 3 4 5; do
		run --separate-stderr list
		[ "$status" -eq 0 ]
		[ -z "$stderr" ]
	done
	wait "$churner"
}

@test "list: changes nothing" {
	make_active "$ONE"
	make_record "$TWO"
	before=$(tree_of)
	list --verbose >/dev/null
	[ "$(tree_of)" = "$before" ]
}

@test "list: needs no installed package and loads nothing that is slow" {
	make_record "$ONE"
	loads_little workcell-session-list
}

@test "list: --status, --agent and --target each may be given several times, and all of them have to fit" {
	make_record "$ONE" agent=claude status=failed exit_status=3
	make_record "$TWO"
	make_active three agent=gemini container_name=n
	run --separate-stderr list --status failed --status running --ids
	[ "$output" = three$'\n'"$ONE" ]
	[ -z "$stderr" ]
	run list --status stopped --agent claude --agent gemini --ids
	[ "$output" = "$ONE" ]
	for target in colima local_sandbox/colima local_sandbox/colima/wcl-demo; do
		run list --target "$target" --ids
		[ "$output" = three ]
	done
	run list --target local_sandbox --target nowhere --ids
	[ "${#lines[@]}" -eq 3 ]
	run list --agent nobody --ids
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	run --separate-stderr list --status runing
	[ "$status" -eq 2 ]
	[[ "$stderr" == *"must be one of starting, running"* ]]
}

@test "list: a session that is lost is listed as lost and not as running" {
	make_record "$ONE" status=running live_status=running exit_status= final_assurance= finished_at= monitor_pid=1 \
		"session_audit_dir=$profile/session-audit.gone42"
	run list --status lost
	[ "$(tail -n 1 <<<"$output" | cut -f 1-3)" = "$ONE"$'\trunning\tlost' ]
	run list --status running
	[ "$output" = "No recorded sessions." ]
}

@test "list: --since and --until take dates, times with any offset and how long ago, and include both ends" {
	make_record "$ONE" started_at=2026-03-02T08:15:00Z
	make_record "$TWO" started_at=2026-03-03T00:00:00Z
	make_record now "started_at=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
	make_record odd started_at=yesterday
	local since until expected
	while read -r since until expected; do
		# shellcheck disable=SC2086
		run --separate-stderr list --ids ${since:+--since=$since} --until="$until"
		[ "$status" -eq 0 ]
		[ "$(tr '\n' ' ' <<<"$output")" = "${expected:+${expected//,/ } }" ] || [ -z "$output$expected" ]
	done <<-EOT
		2026-03-02 2026-03-02 $ONE
		2026-03-02T08:15:00Z 2026-03-03T00:00:00Z $TWO,$ONE
		2026-03-02T08:15:01Z 2026-03-03 $TWO
		2026-03-02T10:15:00+02:00 2026-03-02T09:00 $ONE
		1h 2100-01-01 now
		2027-01-01 2w
	EOT
	for word in tomorrow 2026-13-01 -1h 1y '' ' '; do
		run --separate-stderr list "--since=$word"
		[ "$status" -eq 2 ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
}

@test "list: --limit cuts after sorting, in each form" {
	make_record "$ONE" started_at=2026-03-02T08:15:00Z
	make_record "$TWO" started_at=2026-03-02T09:30:00Z
	run list --limit 1
	[ "$(ids)" = "$TWO" ]
	run list --limit 1 --ids
	[ "$output" = "$TWO" ]
	[ "$(list --limit 1 --json | jq -r '.[].session_id')" = "$TWO" ]
	[ "$(list --limit 1 --jsonl | jq -r .session_id)" = "$TWO" ]
	[ "$(list --limit 1 --parallel | grep -c '^session_id=')" -eq 1 ]
	for word in 0 -1 x 1.5 ''; do
		run list "--limit=$word"
		[ "$status" -eq 2 ]
	done
}

@test "list: --jsonl prints in lines what --json prints, and nothing of nothing" { # D08
	[ -z "$(list --jsonl)" ]
	make_record "$ONE" workspace=$'/srv/\x01\x1b\x7f"\\/<é\tx'
	make_record "$TWO"
	[ "$(list --jsonl | wc -l)" -eq 2 ]
	cmp <(list --jsonl | jq -c .) <(list --json | jq -c '.[]')
}

@test "list: --json keeps its form beside a bad record, and with nothing at all" {
	make_record "$ONE"
	echo '{' >"$profile/sessions/torn.json"
	chmod 600 "$profile/sessions/torn.json"
	run --separate-stderr list --json
	[ "$status" -eq 1 ]
	[ "$(jq -r '.[].session_id' <<<"$output")" = "$ONE" ]
	rm "$(record_of "$ONE")"
	run --separate-stderr list --json
	[ "$output" = "[]" ]
}

@test "list: on a terminal columns are lined up, wide and odd characters too, and no text leaves its column" { # D10
	make_record "$ONE" agent=漢字 workspace=$'/srv/a\tb\x1b[2J'
	make_record "$TWO" agent=é
	run on_terminal "$bin/workcell-session-list"
	[ "$status" -eq 0 ]
	[[ "$output" != *$'\t'* && "$output" != *$'\x1b'* ]]
	[[ "${lines[0]}" =~ ^"session_id                 status  live_status  control   agent  mode    profile   started_at            assurance         workspace" ]]
	[[ "$output" == *"attached  漢字   strict  wcl-demo  2026-03-02T08:15:00Z  managed-readonly  /srv/a\\x09b\\x1b[2J"* ]]
	[[ "$output" == *"attached  é      strict"* ]]
}

@test "list: --human tells starts as people do, in columns of a pipe too" {
	make_record "$ONE" started_at=2026-03-02T08:15:00Z
	make_record "$TWO" "started_at=$(date -u -d '-5 minutes' +%Y-%m-%dT%H:%M:%SZ)"
	make_record "odd" started_at=never
	run env TZ=Asia/Kolkata "$bin/workcell-session-list" --human
	[ "$(tail -n +2 <<<"$output" | cut -f 1,8)" = "odd"$'\tnever\n'"$TWO"$'\t5 minutes ago\n'"$ONE"$'\t2026-03-02 13:45' ]
}
