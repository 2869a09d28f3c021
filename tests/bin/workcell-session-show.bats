#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load helper

setup() {
	make_world
}

show() {
	"$bin/workcell-session-show" "$@"
}

@test "show: prints one record as JSON, every set field in its order" {
	make_record "$ONE" git_branch='a<b'
	run --separate-stderr show --id "$ONE"
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "${lines[0]}" = "{" ]
	[ "${lines[1]}" = '  "version": 1,' ]
	[ "${lines[2]}" = "  \"session_id\": \"$ONE\"," ]
	[[ "$output" == *'"git_branch": "a\u003cb"'* ]]
	[[ "$output" != *'"ui"'* ]]
	show --id "$ONE" | python3 -m json.tool >/dev/null
}

@test "show: --text prints 43 key=value lines, empty where unset" {
	make_record "$ONE"
	run show --id "$ONE" --text
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 43 ]
	[ "${lines[0]}" = "session_id=$ONE" ]
	[[ "$output" == *$'\ndisplay_git_branch=none\n'* ]]
	[[ "$output" == *$'\ngit_branch=\n'* ]]
}

@test "show: unknown id exits 1 and says that the file does not exist" {
	make_record "$ONE"
	run --separate-stderr show --id nope
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[ "$stderr" = "workcell-session-show: nope: no such session, file does not exist; see workcell-session-list" ]
}

@test "show: an id is exact, and never a path" { # F13, F15
	make_record "$ONE"
	cp -p "$(record_of "$ONE")" "$HOME/outside.json"
	for id in "${ONE%?}" "${ONE}0" "../../../../../../home/outside" "$HOME/outside" $'a\nb' "$(printf '%0300d' 0)" ' ' '%2e'; do
		run --separate-stderr show --id "$id"
		[ "$status" -eq 1 ]
		[ -z "$output" ]
		[[ "$stderr" == *"file does not exist"* ]]
	done
}

@test "show: --id=ID and several ids print one record after another" {
	make_record "$ONE"
	make_record "$TWO"
	run show "--id=$TWO" --id "$ONE" --text
	[ "$status" -eq 0 ]
	[ "$(grep -c '^session_id=' <<<"$output")" -eq 2 ]
	[ "${lines[0]}" = "session_id=$TWO" ]
}

@test "show: one of several ids that is missing costs the exit status, not the others" {
	make_record "$ONE"
	run --separate-stderr show --id nope --id "$ONE"
	[ "$status" -eq 1 ]
	[[ "$output" == *"\"session_id\": \"$ONE\""* ]]
	[[ "$stderr" == *"nope: no such session"* ]]
}

@test "show: --id - takes the first column of list, its heading skipped" {
	make_record "$ONE"
	make_record "$TWO" started_at=2026-03-02T09:30:00Z
	run --separate-stderr bash -c '"$1/workcell-session-list" | "$1/workcell-session-show" --id - --text' bash "$bin"
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$(grep '^session_id=' <<<"$output")" = "session_id=$TWO"$'\n'"session_id=$ONE" ]
}

@test "show: --id - of an empty list prints nothing and exits 0" {
	run --separate-stderr bash -c '"$1/workcell-session-list" | "$1/workcell-session-show" --id -' bash "$bin"
	[ "$status" -eq 0 ]
	[ -z "$output$stderr" ]
}

@test "show: a broken record says which file and why, and no other session notices" { # G02
	make_record "$ONE"
	make_record "$TWO"
	for damage in 'printf ""' 'printf "{"' 'head -c 4096 /dev/zero' 'printf "{}"' 'printf "\377"'; do
		eval "$damage" >"$(record_of "$TWO")"
		run --separate-stderr show --id "$TWO"
		[ "$status" -eq 1 ]
		[ -z "$output" ]
		[[ "$stderr" == "workcell-session-show: $(record_of "$TWO"): "* ]]
		run show --id "$ONE"
		[ "$status" -eq 0 ]
	done
}

@test "show: bytes after the record, or appended to it, are refused" { # G02
	make_record "$ONE"
	printf '{"x": 1}' >>"$(record_of "$ONE")"
	run show --id "$ONE"
	[ "$status" -eq 1 ]
}

@test "show: a record that others could have written is refused" {
	make_record "$ONE"
	chmod 640 "$(record_of "$ONE")"
	run --separate-stderr show --id "$ONE"
	[ "$status" -eq 1 ]
	[[ "$stderr" == *"open to others (mode 0640)"* ]]
	chmod 600 "$(record_of "$ONE")"
	chmod 777 "$profile/sessions"
	run --separate-stderr show --id "$ONE"
	[ "$status" -eq 1 ]
	[[ "$stderr" == *"others may change"* ]]
}

@test "show: hostile text in a record stays in its field and drives no terminal" { # D08, D10
	make_record "$ONE" git_branch=$'a\x1b]52;c;QQ==\x07b\x7f\xc2\x9b31m' workspace=$'/srv/\xe2\x80\xaex'
	run show --id "$ONE"
	[ "$(python3 -c 'import json, sys; print(ascii(json.load(sys.stdin)["git_branch"]))' <<<"$output")" = "'a\\x1b]52;c;QQ==\\x07b\\x7f\\x9b31m'" ]
	for form in "" --text; do
		# shellcheck disable=SC2086
		run on_terminal "$bin/workcell-session-show" --id "$ONE" $form
		[ "$status" -eq 0 ]
		[[ "$output" != *$'\x1b'* && "$output" != *$'\x07'* && "$output" != *$'\xc2\x9b'* && "$output" != *$'\xe2\x80\xae'* ]]
		[[ "$output" == *'\x9b31m'* ]]
	done
}

@test "show: usage errors exit 2 with one line" {
	for words in "" "--id" "--id ''" "--id --text" "$ONE" "--id $ONE --frobnicate" "--tex --id $ONE" "--text=1 --id $ONE"; do
		run --separate-stderr bash -c "'$bin/workcell-session-show' $words"
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
}

@test "show: --help prints the header on standard output" {
	run --separate-stderr show --help
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[[ "$output" == "workcell-session-show - "*"Usage:"*"Exit status:"* ]]
}

@test "show: a reader that goes away is no error of ours" {
	make_record "$ONE"
	run --separate-stderr bash -c '"$1/workcell-session-show" --id "$2" | true; echo "${PIPESTATUS[0]}"' bash "$bin" "$ONE"
	[ -z "$stderr" ]
	[[ "$output" == 0 || "$output" == 141 ]]
}

@test "show: a full disk behind standard output is an error" {
	[ -w /dev/full ] || skip "needs /dev/full"
	make_record "$ONE"
	run --separate-stderr bash -c '"$1/workcell-session-show" --id "$2" >/dev/full' bash "$bin" "$ONE"
	[ "$status" -eq 1 ]
	[[ "$stderr" == *"No space left"* ]]
}

@test "show: changes nothing" {
	make_active "$ONE"
	before=$(tree_of)
	show --id "$ONE" >/dev/null
	[ "$(tree_of)" = "$before" ]
}

@test "show: the cost does not grow with the number of records" {
	make_record "$ONE"
	for number in $(seq 100); do
		echo broken >"$profile/sessions/other-$number.json"
	done
	chmod 600 "$profile"/sessions/*
	if ! command -v strace >/dev/null; then skip "needs strace"; fi
	strace -f -e trace=open,openat -o "$BATS_TEST_TMPDIR/trace" "$bin/workcell-session-show" --id "$ONE" >/dev/null
	[ "$(grep -c '\.json"' "$BATS_TEST_TMPDIR/trace")" -eq 1 ]
}

@test "show: needs no installed package and loads nothing that is slow" {
	make_record "$ONE"
	loads_little workcell-session-show --id "$ONE"
}

@test "show: --field prints values alone, one a line, of each session in turn" {
	make_record "$ONE" git_branch=work
	make_record "$TWO"
	run --separate-stderr show --id "$ONE" --id "$TWO" --field git_branch --field status --field target_summary
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$output" = $'work\nexited\nlocal_sandbox/bubblewrap/wcl-demo\n\nexited\nlocal_sandbox/bubblewrap/wcl-demo' ]
	[ "$(show --id "$ONE" --field version)" = 1 ]
	run --separate-stderr show --id nope --id "$ONE" --field session_id
	[ "$status" -eq 1 ]
	[ "$output" = "$ONE" ]
	for words in "--field colour" "--field" "--field status --text"; do
		# shellcheck disable=SC2086
		run --separate-stderr show --id "$ONE" $words
		[ "$status" -eq 2 ]
		[ -z "$output" ]
	done
}

@test "show: records one after another are what jq reads" {
	make_record "$ONE"
	make_record "$TWO" status=failed exit_status=3
	run bash -c '"$1/workcell-session-list" | "$1/workcell-session-show" --id - | jq -r "select(.exit_status != \"0\") | .session_id"' bash "$bin"
	[ "$output" = "$TWO" ]
}
