#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load sessions

setup_file() {
	make_sessions_world
}

workcell() {
	"$bin/workcell" "$@"
}

@test "workcell: without words, or asked for help, prints one line for each command" {
	run --separate-stderr workcell
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	grep -q '^workcell-session-start - ' <<<"$output"
	for words in --help -h help; do
		run --separate-stderr workcell "$words"
		[ "$status" -eq 0 ]
		[ "${lines[0]}" = "Usage: workcell COMMAND [option...], for example: workcell session list" ]
	done
}

@test "workcell: tells its version in one line" {
	run --separate-stderr workcell --version
	[ "$status" -eq 0 ]
	[[ $output =~ ^workcell\ [0-9]+\.[0-9] ]]
	[ "${#lines[@]}" -eq 1 ]
}

@test "workcell: joins its words to the name of a command, and passes on arguments, output and status" {
	run --separate-stderr workcell session list
	[ "$status" -eq 0 ]
	[ "$output" = "No recorded sessions." ]
	run --separate-stderr workcell session show --id "a  b"
	[ "$status" -eq 1 ]
	[[ $stderr == *"a  b"*"file does not exist"* ]]
	run --separate-stderr workcell session stop --id $'a\nb'
	[ "$status" -eq 2 ]
}

@test "workcell: takes the standard input of the command" {
	run --separate-stderr workcell session show --id - <<<"no-such-session"
	[ "$status" -eq 1 ]
	[[ $stderr == *no-such-session* ]]
}

@test "workcell: an unknown session command is named with the usage on standard error, exit 2" {
	for word in frobnicate List a/b ../show - _; do
		run --separate-stderr workcell session "$word"
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[[ $stderr == "workcell: unsupported session command '$word'"* ]]
		[[ $stderr == *"workcell session start --agent NAME"* ]]
	done
}

@test "workcell: an unknown command is one line on standard error, exit 2" {
	for word in frobnicate -x --session ../session Session /bin/true; do
		run --separate-stderr workcell "$word" list
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ "$stderr" = "workcell: unknown command '$word'; see workcell --help" ]
	done
}

@test "workcell: what it quotes cannot drive a terminal" {
	for words in $'\e[2J' $'session \e]52;c;x\a'; do
		# shellcheck disable=SC2086
		run --separate-stderr workcell $words
		[ "$status" -eq 2 ]
		[[ $stderr != *$'\e'* && $stderr != *$'\a'* ]]
	done
}

@test "workcell: asking for the session commands prints their usage, exit 0" {
	for words in session "session --help" "session -h" "help session"; do
		# shellcheck disable=SC2086
		run --separate-stderr workcell $words
		[ "$status" -eq 0 ]
		[ -z "$stderr" ]
		[ "${lines[0]}" = Usage: ]
		grep -q '^  workcell session start --agent NAME' <<<"$output"
	done
}

@test "workcell: works through links and from PATH, from any folder" {
	mkdir "$BATS_TEST_TMPDIR/links" "$BATS_TEST_TMPDIR/elsewhere"
	ln -s "$(realpath "$bin/workcell")" "$BATS_TEST_TMPDIR/links/first"
	ln -s first "$BATS_TEST_TMPDIR/links/wc"
	cd "$BATS_TEST_TMPDIR/elsewhere"
	run --separate-stderr ../links/wc session list
	[ "$status" -eq 0 ]
	[ "$output" = "No recorded sessions." ]
	run --separate-stderr env "PATH=$BATS_TEST_TMPDIR/links:$PATH" wc session list
	[ "$output" = "No recorded sessions." ]
	run --separate-stderr env "PATH=$(realpath "$bin"):$PATH" workcell session list
	[ "$output" = "No recorded sessions." ]
}

@test "workcell: a program on PATH that is named like a command is one" {
	mkdir "$BATS_TEST_TMPDIR/own"
	printf '#!/bin/sh\nprintf "<%%s>" "$@"\nexit 9\n' >"$BATS_TEST_TMPDIR/own/workcell-session-mine"
	cp "$BATS_TEST_TMPDIR/own/workcell-session-mine" "$BATS_TEST_TMPDIR/own/workcell-other"
	chmod +x "$BATS_TEST_TMPDIR"/own/*
	PATH=$BATS_TEST_TMPDIR/own:$PATH
	run --separate-stderr workcell session mine "a b" "" '*'
	[ "$status" -eq 9 ]
	[ "$output" = "<a b><><*>" ]
	run --separate-stderr workcell other
	[ "$status" -eq 9 ]
}

@test "workcell: a program on PATH does not take the place of one of ours" {
	mkdir "$BATS_TEST_TMPDIR/evil"
	printf '#!/bin/sh\necho evil\n' >"$BATS_TEST_TMPDIR/evil/workcell-session-list"
	chmod +x "$BATS_TEST_TMPDIR/evil/workcell-session-list"
	PATH=$BATS_TEST_TMPDIR/evil:$PATH
	run --separate-stderr workcell session list
	[ "$output" = "No recorded sessions." ]
}

@test "workcell: a reader that goes away is no error message" {
	run --separate-stderr bash -c "'$bin/workcell' session --help | head -n 1; exit \"\${PIPESTATUS[0]}\""
	[ "$status" -eq 0 ] || [ "$status" -eq 141 ]
	[ -z "$stderr" ]
	[ "$output" = Usage: ]
}
