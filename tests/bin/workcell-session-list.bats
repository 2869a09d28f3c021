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

@test "list: needs no installed package" {
	make_record "$ONE"
	run python3 -I -S "$bin/workcell-session-list"
	[ "$status" -eq 0 ]
	modules=$(python3 -I -S -X importtime "$bin/workcell-session-list" 2>&1 >/dev/null | sed 's/.*| *//')
	for name in hashlib subprocess typing pathlib tempfile logging dataclasses argparse fcntl cryptography; do
		[ "$(grep -cx "$name" <<<"$modules")" -eq 0 ]
	done
}
