# shellcheck shell=bash
# What the tests of the reading commands share: a home and a state root of the test's own, with records, events and seals.

here=$(cd "$BATS_TEST_DIRNAME" && pwd)
bin=${WORKCELL_BIN:-$here/../../bin}
lib=$here/../../lib
helper=$here/../vectors_helper
if [ -x "$here/../../.venv/bin/python3" ]; then
	PATH=$here/../../.venv/bin:$PATH
fi

ONE=20260302T081500Z-1f3a9c20
TWO=20260302T093000Z-27b04e11

fields="session_id profile target_kind target_provider target_id target_assurance_class runtime_api workspace_transport agent mode
	status ui execution_path workspace workspace_origin workspace_root worktree_path git_branch git_head git_base container_name
	monitor_pid live_status session_audit_dir audit_log_path debug_log_path file_trace_log_path transcript_log_path started_at
	observed_at finished_at exit_status initial_assurance current_assurance final_assurance workspace_control_plane
	workspace_repo_mcp bootstrap_id image_ref"

make_world() {
	export HOME=$BATS_TEST_TMPDIR/home WORKCELL_STATE_ROOT=$BATS_TEST_TMPDIR/state LC_ALL=C.UTF-8 TZ=UTC
	unset XDG_STATE_HOME COLIMA_STATE_ROOT
	mkdir -m 700 "$HOME" "$WORKCELL_STATE_ROOT"
	profile=$WORKCELL_STATE_ROOT/targets/local_sandbox/bubblewrap/wcl-demo
	log=$profile/workcell.audit.log
}

record_of() {
	echo "$profile/sessions/$1.json"
}

# make_record ID [KEY=VALUE...]: a session that is over, unless told otherwise
make_record() {
	local id=$1 path pair odd=
	shift
	set -- "session_id=$id" profile=wcl-demo target_kind=local_sandbox target_provider=bubblewrap target_id=wcl-demo \
		target_assurance_class=sandbox runtime_api=bubblewrap workspace_transport=workspace-mount agent=codex mode=strict \
		status=exited live_status=stopped exit_status=0 final_assurance=managed-readonly finished_at=2026-03-02T10:00:00Z \
		workspace=/srv/work/repo "audit_log_path=$log" started_at=2026-03-02T08:15:00Z "$@"
	path=$(record_of "$id")
	local -A value=()
	for pair in "$@"; do
		value[${pair%%=*}]=${pair#*=}
		[[ "$pair" =~ [^-a-zA-Z0-9_./:=\ ] ]] && odd=yes
	done
	if [ -n "$odd" ] || [ -e "$path" ]; then
		"$helper" record-write "$path" "$@"
		return
	fi
	# What the helper would write, without starting Python: most tests make some records.
	(umask 077 && mkdir -p "${path%/*}")
	local text='{\n  "version": 1' name
	for name in $fields; do
		[ -n "${value[$name]-}" ] && text+=",\n  \"$name\": \"${value[$name]}\""
	done
	(umask 077 && printf "$text\n}\n" >"$path")
}

# make_active ID [KEY=VALUE...]: a session of another writer that is recorded as running
make_active() {
	local id=$1
	shift
	make_record "$id" status=running live_status=running exit_status= final_assurance= finished_at= \
		target_provider=colima "$@"
}

# add_event ID EVENT [KEY=VALUE...]
add_event() {
	python3 -c '
import sys
sys.path.insert(0, sys.argv[1])
from workcell import audit
pairs = [tuple(pair.split("=", 1)) for pair in sys.argv[5:]]
audit.append_event(sys.argv[2], sys.argv[4], sys.argv[3], pairs, timestamp="2026-03-02T08:15:00Z")
' "$here/../../lib" "$log" "$@"
}

seal() {
	"$helper" sign-head --signing-dir="$WORKCELL_STATE_ROOT/signing" --audit-log="$log" --session-id="$1" \
		--record-path="$(record_of "$1")" --provider=bubblewrap
}

# on_terminal COMMAND...: run it with a terminal as standard output and print what the terminal got
on_terminal() {
	python3 -c '
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
data = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    data += part
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(data)
sys.exit(os.waitstatus_to_exitcode(status))
' "$@"
}

tree_of() {
	find "$BATS_TEST_TMPDIR/state" "$BATS_TEST_TMPDIR/home" -printf '%p %m %s %T@ %l\n' | sort
}

# modules_of COMMAND [WORD...]: what one of ours loads beyond the bare interpreter; without site-packages where it can do so
modules_of() {
	local command=$bin/$1 python=python3 flags=(-I -S)
	shift
	if [ ! -e "$bin/../lib/workcell/__init__.py" ] && [ ! -e "$bin/../lib/workcell/workcell/__init__.py" ]; then
		python=$bin/python # installed from a wheel: the library is in the site-packages of its environment
		flags=(-I)
	fi
	"$python" "${flags[@]}" -X importtime -c pass 2>&1 | sed 's/.*| *//' | sort >"$BATS_TEST_TMPDIR/bare"
	"$python" "${flags[@]}" -X importtime "$command" "$@" 2>"$BATS_TEST_TMPDIR/loaded" >"$BATS_TEST_TMPDIR/printed" || return
	sed 's/.*| *//' "$BATS_TEST_TMPDIR/loaded" | sort | comm -23 - "$BATS_TEST_TMPDIR/bare"
}

# loads_little COMMAND [WORD...]: fail where it loads what costs more than the command
loads_little() {
	local modules name
	modules=$(modules_of "$@") || return 1
	grep -qx workcell.record <<<"$modules" || return 1
	for name in hashlib subprocess typing pathlib tempfile logging dataclasses argparse cryptography plumbum jsonschema; do
		if grep -qx "$name" <<<"$modules"; then
			echo "loads $name"
			return 1
		fi
	done
}
