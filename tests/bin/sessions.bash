# shellcheck shell=bash
# What the tests of the commands on live sessions share: a repository and a state root for the whole file, and its sessions.

load helper

make_sessions_world() { # in setup_file
	export HOME=$BATS_FILE_TMPDIR/home WORKCELL_STATE_ROOT=$BATS_FILE_TMPDIR/state LC_ALL=C.UTF-8 TZ=UTC
	export REPO=$HOME/repo
	unset XDG_STATE_HOME COLIMA_STATE_ROOT
	mkdir -p "$REPO"
	git init -q -b main "$REPO"
	echo hello >"$REPO/README"
	git -C "$REPO" add -A
	git -C "$REPO" -c user.name=Op -c user.email=op@example.org commit -q -m one
}

end_sessions() { # in teardown_file
	local id
	"$bin/workcell-session-list" | tail -n +2 | cut -f 1 | while read -r id; do
		"$bin/workcell-session-stop" --id "$id" --force >/dev/null
	done
}

# start [OPTION...] -- PROGRAM [ARG...]: start a session and print its id; a failure is the test's
start() {
	local summary
	summary=$("$bin/workcell-session-start" --workspace "$REPO" --agent command --target bubblewrap "$@") || return
	sed -n '1s/^session_id=//p' <<<"$summary"
}

# value KEY: of the key=value lines in $output, the first of that key
value() {
	sed -n "s/^$1=//p" <<<"$output" | head -n 1
}

# json EXPRESSION: evaluate it with `it` as the JSON value in $output
json() {
	python3 -c 'import json, sys; it = json.loads(sys.argv[1]); print(eval(sys.argv[2]))' "$output" "$1"
}

# until_true COMMAND...: try it again and again, for at most 20 s
until_true() {
	local deadline=$((SECONDS + 20))
	until "$@"; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.02
	done
}

# says ID TEXT: whether the console of a session has a text
says() {
	local folder
	folder=$("$bin/workcell-session-show" --id "$1" --text | sed -n 's/^session_audit_dir=//p')
	grep -q -- "$2" "$folder"/console/*.out
}
