#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load sessions

setup_file() {
	make_sessions_world
	# The sandbox of root runs as somebody who has to get through to the clone.
	chmod 755 "$BATS_FILE_TMPDIR" "$HOME"
}

teardown_file() {
	end_sessions
}

diff_() {
	"$bin/workcell-session-diff" "$@"
}

# worked SCRIPT: start a session that runs a shell script, wait for its end and print its id
worked() {
	local id
	id=$(start -- sh -ec "$1") || return
	"$bin/workcell-session-wait" --id "$id" >&2 || return
	echo "$id"
}

@test "diff: a workspace in which nothing was done is clean" { # H15
	id=$(worked true)
	base=$(git -C "$REPO" rev-parse HEAD)
	run --separate-stderr diff_ --id "$id"
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	clone=$REPO/.git/workcell-sessions/$id/repo
	[ "$output" = "session_id=$id
workspace=$clone
git_branch=workcell/session-$id
git_head=$base
git_base=$base

[status]
clean

[diff]
clean" ]
}

@test "diff: what was committed, changed and left untracked is shown" {
	id=$(worked 'echo more >>README; git commit -qam "say more"; echo again >>README; echo new >new')
	run --separate-stderr diff_ --id "$id"
	[ "$status" -eq 0 ]
	[[ "$output" == *"
commit="*" (HEAD, refs/heads/workcell/session-$id) say more

[status]
 M README
?? new

[diff]
diff --git a/README b/README
"*"
+more
+again" ]]
	run diff_ --id "$id" --untracked
	[[ "$output" == *"
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+new" ]]
}

@test "diff: --stat, --name-only and --json are forms of the same" {
	id=$(worked 'echo more >>README; echo new >"a b"')
	[[ "$(diff_ --id "$id" --stat)" == " README | 1 +"* ]]
	[ "$(diff_ --id "$id" --name-only)" = $'README\na b' ]
	[ "$(diff_ --id "$id" --name-only --null | tr '\0' '|')" = 'README|a b|' ]
	diff_ --id "$id" --json | python3 -c '
import json, sys
sys.path.insert(0, sys.argv[1])
from workcell import schema
value = json.load(sys.stdin)
schema.check("session-diff", value)
assert value["complete"] and [row["path"] for row in value["changes"]] == ["README"], value
' "$lib"
}

@test "diff: the patch can be applied to the source" {
	id=$(worked 'echo more >>README; printf "\0\1" >bin; git add bin; git rm -q --cached README; git add README; chmod +x README')
	git clone -q "$REPO" "$HOME/copy"
	diff_ --id "$id" | sed '1,/^\[diff\]$/d' | git -C "$HOME/copy" apply --include=README
	[ "$(cat "$HOME/copy/README")" = $'hello\nmore' ]
	[ -x "$HOME/copy/README" ]
}

@test "diff: --output replaces a file whole and prints where it is" {
	id=$(worked 'echo more >>README')
	run --separate-stderr diff_ --id "$id" --output "$HOME/new/file"
	[ "$status" -eq 0 ]
	[ "$output" = "session_diff=$HOME/new/file" ]
	[ "$(cat "$HOME/new/file")" = "$(diff_ --id "$id")" ]
	[ "$(stat -c %a "$HOME/new/file")" = 600 ]
}

@test "diff: --help is on standard output, and usage errors exit 2" {
	run --separate-stderr diff_ --help
	[ "$status" -eq 0 ]
	[[ "$output" == workcell-session-diff\ -\ * ]]
	for words in "" "--id" "--id x --what" "--id x --stat --json" "--id x --null"; do
		# shellcheck disable=SC2086
		run --separate-stderr diff_ $words
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[[ "$stderr" == workcell-session-diff:* ]]
	done
}

@test "diff: what cannot be compared exits 1 with the reason" {
	run --separate-stderr diff_ --id nope
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[[ "$stderr" == *"no such session"* ]]
	id=$(worked true)
	rm -rf "$REPO/.git/workcell-sessions/$id"
	run --separate-stderr diff_ --id "$id"
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[[ "$stderr" == *"the recorded workspace is not there"* ]]
}
