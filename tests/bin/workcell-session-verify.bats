#!/usr/bin/env bats

bats_require_minimum_version 1.5.0
load helper

setup() {
	make_world
}

verify() {
	"$bin/workcell-session-verify" "$@"
}

# Two sessions that took turns in one log, both sealed.
make_sealed() {
	make_record "$ONE"
	make_record "$TWO"
	python3 -c '
import sys
sys.path.insert(0, sys.argv[1])
from workcell import audit, seal
log, ids, paths = sys.argv[2], sys.argv[3:5], sys.argv[5:7]
for event in ("launch", "exit"):
    for session_id in ids:
        audit.append_event(log, event, session_id, [], timestamp="2026-03-02T08:15:00Z")
for session_id, path in zip(ids, paths):
    seal.seal_session(path, session_id, "bubblewrap")
' "$lib" "$log" "$ONE" "$TWO" "$(record_of "$ONE")" "$(record_of "$TWO")"
}

# expect VERDICT ID: that word on stderr and in JSON, and exit status 1
expect() {
	run --separate-stderr verify --id "$2"
	[ "$status" -eq 1 ] || return 1
	[ -z "$output" ] || return 1
	[[ "$stderr" == "workcell-session-verify: $2: $1: "* ]] || return 1
	run verify --id "$2" --json
	[ "$status" -eq 1 ] || return 1
	[[ "$output" == *"\"verdict\": \"$1\""* ]] || return 1
}

@test "verify: a sealed session whose log is untouched is verified" {
	make_sealed
	run --separate-stderr verify --id "$ONE"
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "${lines[0]}" = "session_verify=verified" ]
	[ "${lines[1]}" = "session_id=$ONE" ]
	[[ "${lines[2]}" =~ ^key_id=[0-9a-f]{32}$ ]]
	[[ "${lines[3]}" =~ ^head_digest=[0-9a-f]{64}$ ]]
	[ "${#lines[@]}" -eq 4 ]
}

@test "verify: --json prints an object that fits its schema" {
	make_sealed
	verify --id "$ONE" --json | python3 -c '
import json, sys
sys.path.insert(0, sys.argv[1])
from workcell import schema
value = json.load(sys.stdin)
schema.check("session-verify", value)
assert value["verdict"] == "verified", value
' "$lib"
}

@test "verify: several ids, and ids from list, each with its verdict" {
	make_sealed
	run bash -c '"$1/workcell-session-list" | "$1/workcell-session-verify" --id -' bash "$bin"
	[ "$status" -eq 0 ]
	[ "$(grep -c '^session_verify=verified$' <<<"$output")" -eq 2 ]
	rm "$profile/sessions/$TWO.audit-sig"
	run --separate-stderr verify --id "$TWO" --id "$ONE" --id nope
	[ "$status" -eq 1 ]
	[ "$(grep -c '^session_verify=verified$' <<<"$output")" -eq 1 ]
	[[ "$stderr" == *"$TWO: unsealed: "*"nope: no such session"* ]]
}

@test "verify: a session without a seal is unsealed, running or not" { # J06, J12
	make_record "$ONE"
	make_active "$TWO"
	add_event "$ONE" launch
	add_event "$TWO" launch
	expect unsealed "$ONE"
	expect unsealed "$TWO"
	[ ! -e "$WORKCELL_STATE_ROOT/signing" ]
}

@test "verify: lines cut from the end, or the whole log, are cut" { # J03
	make_sealed
	cp "$log" "$HOME/log"
	for count in 3 2 1 0; do
		head -n "$count" "$HOME/log" >"$log"
		expect cut "$TWO"
	done
	rm "$log"
	expect cut "$TWO"
}

@test "verify: a changed, moved or missing line is a broken chain" {
	make_sealed
	cp "$log" "$HOME/log"
	for edit in '1s/launch/lunch/' 2d '1{h;d};2{G}' '1s/08:15:00/08:15:01/' '3s/ event/ x=y event/'; do
		sed "$edit" "$HOME/log" >"$log"
		expect broken-chain "$ONE"
	done
}

@test "verify: half a last line is torn, not edited" { # J05
	make_sealed
	cp "$log" "$HOME/log"
	head -c -30 "$HOME/log" >"$log"
	expect torn "$TWO"
	run verify --id "$ONE"
	[ "$status" -eq 0 ]
	{ cat "$HOME/log" && printf '%s' "x=\$'half"; } >"$log"
	expect torn "$ONE"
}

@test "verify: damage after a session's last line is no matter of its" { # J11
	make_sealed
	sed -i '4s/exit/exot/' "$log"
	run verify --id "$ONE"
	[ "$status" -eq 0 ]
	expect broken-chain "$TWO"
}

@test "verify: a seal that is damaged, open to others, a link or another session's is bad" { # D27, J08
	make_sealed
	mine=$profile/sessions/$ONE.audit-sig
	cp -p "$mine" "$HOME/seal"
	echo '{' >"$mine"
	expect bad-seal "$ONE"
	cat "$profile/sessions/$TWO.audit-sig" >"$mine"
	expect bad-seal "$ONE"
	cat "$HOME/seal" >"$mine"
	chmod 644 "$mine"
	expect bad-seal "$ONE"
	rm "$mine"
	ln -s "$HOME/seal" "$mine"
	expect bad-seal "$ONE"
	rm "$mine"
	mkfifo -m 600 "$mine"
	expect bad-seal "$ONE"
}

@test "verify: a seal of another host is a wrong key" { # J12
	make_sealed
	rm "$WORKCELL_STATE_ROOT"/signing/*.pub
	expect wrong-key "$ONE"
}

@test "verify: after a new key was made old seals still verify" { # J08
	make_sealed
	rm "$WORKCELL_STATE_ROOT/signing/signing.key"
	make_record third
	add_event third exit
	seal third
	for id in "$ONE" "$TWO" third; do
		run verify --id "$id"
		[ "$status" -eq 0 ]
	done
	[ "$(find "$WORKCELL_STATE_ROOT/signing" -name '*.pub' | wc -l)" -eq 2 ]
}

@test "verify: an open log, key store or record is unreadable" {
	make_sealed
	chmod 644 "$log"
	expect unreadable "$ONE"
	chmod 600 "$log"
	chmod 755 "$WORKCELL_STATE_ROOT/signing"
	expect unreadable "$ONE"
	chmod 700 "$WORKCELL_STATE_ROOT/signing"
	chmod 644 "$(record_of "$ONE")"
	expect unreadable "$ONE"
}

@test "verify: a record that names no log, or another one, is a path mismatch" {
	make_sealed
	"$helper" record-write "$(record_of "$ONE")" audit_log_path=
	expect path-mismatch "$ONE"
	"$helper" record-write "$(record_of "$ONE")" audit_log_path=/srv/other.log
	expect path-mismatch "$ONE"
}

@test "verify: events without digests are unsupported" {
	make_record "$ONE"
	printf 'event=launch session_id=%s \n' "$ONE" >"$log"
	chmod 600 "$log"
	expect unsupported "$ONE"
}

@test "verify: a broken record of another session is no matter of its" { # D10, J11
	make_sealed
	echo '{' >"$(record_of "$TWO")"
	run verify --id "$ONE"
	[ "$status" -eq 0 ]
	expect unreadable "$TWO"
}

@test "verify: home and secrets are taken out of what it prints" {
	export WORKCELL_STATE_ROOT=$HOME/state
	profile=$WORKCELL_STATE_ROOT/targets/local_sandbox/bubblewrap/wcl-demo
	make_record token=abc audit_log_path=/srv/x
	chmod 644 "$(record_of token=abc)"
	run --separate-stderr verify --id token=abc
	[ "$status" -eq 1 ]
	[[ "$stderr" != *"$HOME"* && "$stderr" == *"~/state/targets/"* && "$stderr" == *"token=[REDACTED]"* && "$stderr" != *abc* ]]
}

@test "verify: what verifies is not the caller's to choose" {
	make_sealed
	for words in "--root /srv" "--root=/srv" "--signing-dir=/srv" "--real-home /srv" "--real-home=/srv --frobnicate"; do
		run --separate-stderr bash -c "'$bin/workcell-session-verify' --id '$ONE' $words"
		[ "$status" -eq 2 ]
		[[ "$stderr" == *"cannot be chosen"* ]]
	done
}

@test "verify: a clock that went back is a note" { # L01
	make_record "$ONE"
	add_event "$ONE" launch
	python3 -c '
import sys
sys.path.insert(0, sys.argv[1])
from workcell import audit
audit.append_event(sys.argv[2], "exit", sys.argv[3], [], timestamp="2026-03-02T07:15:00Z")
' "$here/../../lib" "$log" "$ONE"
	seal "$ONE"
	run --separate-stderr verify --id "$ONE"
	[ "$status" -eq 0 ]
	[[ "$stderr" == *"note: the clock went back"* ]]
}

@test "verify: changes and locks nothing" {
	make_sealed
	before=$(tree_of)
	exec 9<"$log.lock.guard"
	flock 9
	run timeout 20 "$bin/workcell-session-verify" --id "$ONE"
	exec 9<&-
	[ "$status" -eq 0 ]
	[ "$(tree_of)" = "$before" ]
}

@test "verify: usage errors exit 2" {
	for words in "" "--id" "x" "--id $ONE --frobnicate"; do
		run --separate-stderr bash -c "'$bin/workcell-session-verify' $words"
		[ "$status" -eq 2 ]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
}

@test "verify: --all prints verdict and id of every session, reads each log once, and says why not" {
	make_sealed
	make_record third
	add_event third launch
	echo '{' >"$profile/sessions/torn.json"
	chmod 600 "$profile/sessions/torn.json"
	run --separate-stderr verify --all
	[ "$status" -eq 1 ]
	[ "$(sort <<<"$output")" = $'unreadable\ttorn\nunsealed\tthird\nverified\t'"$ONE"$'\nverified\t'"$TWO" ]
	[ "${#stderr_lines[@]}" -eq 2 ]
	[[ "$stderr" == *"torn: unreadable: "*"torn.json"* && "$stderr" == *"third: unsealed: "* ]]
	if command -v strace >/dev/null; then
		strace -f -e trace=open,openat -o "$BATS_TEST_TMPDIR/trace" "$bin/workcell-session-verify" --all >/dev/null 2>&1 || true
		[ "$(grep -c '"workcell.audit.log"' "$BATS_TEST_TMPDIR/trace")" -eq 1 ]
	fi
	rm "$profile/sessions/torn.json" "$profile/sessions/third.json"
	run --separate-stderr verify --all
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[ "$(verify --all --json | jq -r .verdict | tr '\n' ' ')" = "verified verified " ]
	for words in "--all --id $ONE" ""; do
		# shellcheck disable=SC2086
		run verify $words
		[ "$status" -eq 2 ]
	done
}

@test "verify: --all without any session prints nothing and exits 0" {
	run --separate-stderr verify --all
	[ "$status" -eq 0 ]
	[ -z "$output$stderr" ]
}

@test "verify: --all shows on a terminal what it is at, and nothing of that stays" {
	make_sealed
	run on_terminal "$bin/workcell-session-verify" --all
	[ "$status" -eq 0 ]
	[[ "$output" == *"verifying 1 to 2 of 2 sessions"*$'\r\x1b[K'*"verified"* ]]
	[ "$(sed 's/.*\x1b\[K//' <<<"$output" | tr -d '\r' | sort)" = $'verified\t'"$ONE"$'\nverified\t'"$TWO" ]
}

@test "verify: a log of any size is verified, and from 56 MiB on remarked on" { # D11
	make_sealed
	line=$(printf '%01000d' 0 | sed "s/^/event=x session_id=later argv=/")
	yes "$line" | head -c 58700000 >>"$log"
	run --separate-stderr verify --id "$ONE"
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	yes "$line" | head -c 8500000 >>"$log"
	[ "$(stat -c %s "$log")" -gt 67108864 ]
	run --separate-stderr verify --id "$ONE"
	[ "$status" -eq 0 ]
	[[ "$stderr" == *"note: the audit log has 672"*"other readers refuse"* ]]
}
