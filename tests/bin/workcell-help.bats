#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load helper

help() {
	"$bin/workcell-help" "$@"
}

@test "help: one line for each command that a user calls, in their order" {
	run --separate-stderr help
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	for verb in start attach send stop list show timeline verify wait; do
		grep -q "^workcell-session-$verb - " <<<"$output"
	done
	[[ $output != *monitor* ]]
	order=$(grep -o '^workcell-session-[a-z]*' <<<"$output" | head -n 5 | tr '\n' ' ')
	[ "$order" = "workcell-session-start workcell-session-attach workcell-session-send workcell-session-stop workcell-session-list " ]
}

@test "help: each other executable has a header, and prints it when asked" {
	for path in "$bin"/workcell-*; do
		name=${path##*/}
		[ "$name" != workcell-help ] || continue
		run --separate-stderr "$path" --help
		[ "$status" -eq 0 ]
		[ -z "$stderr" ]
		[[ ${lines[0]} == "$name - "* ]]
		grep -q '^Usage: ' <<<"$output"
		grep -q '^Exit status: ' <<<"$output"
		asked=$output
		# shellcheck disable=SC2046
		[ "$(help $(tr - ' ' <<<"${name#workcell-}"))" = "$asked" ]
	done
}

@test "help: the usage of the session commands has a line and the options of each" {
	run --separate-stderr help session
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = Usage: ]
	for option in '--session-workspace direct|isolated' --id --no-stdin --message --no-newline --force --workspace \
		--colima-profile --json --verbose --parallel --text; do
		grep -q -e "$option" <<<"$output" || { echo "no $option" && false; }
	done
	[[ $output != *"session monitor"* ]]
}

@test "help: an unknown command is refused in one line" {
	for words in frobnicate "session frobnicate" ../workcell "session /bin/sh" "session start extra"; do
		# shellcheck disable=SC2086
		run --separate-stderr help $words
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[[ $stderr == "workcell-help: command "*"there is no such command"* ]]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
}

@test "help: tells the version" {
	run --separate-stderr help --version
	[ "$status" -eq 0 ]
	[[ $output == "workcell "* ]]
}

@test "help: needs neither state nor git nor a writable home" {
	run --separate-stderr env -i "PATH=$PATH" HOME=/nonexistent "$bin/workcell-help" session
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
}
