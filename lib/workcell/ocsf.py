"""Records and audit events as OCSF: class Application Lifecycle (6002), version 1.3.0 of the schema, one event a line.

What is exported leaves the host, so every value passes the redactor, free text is left out, and a key that is not known is
not even named. See workcell-ocsf(5) for the mapping.
"""

import calendar
import json
import re

from workcell import quoting, redact
from workcell.canonical import BLANKS
from workcell.errors import UnreadableError
from workcell.record import FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

SCHEMA_VERSION = "1.3.0"
MAPPING_VERSION = "2"
CLASS_UID = 6002
ACTIVITIES = {0: "Unknown", 3: "Start", 4: "Stop", 99: "Other"}
SEVERITIES = {1: "Informational", 3: "Medium"}
STATUSES = {0: "Unknown", 1: "Success", 2: "Failure"}
FREEFORM = "[REDACTED-FREEFORM]"

_STARTS = ("launch", "session_started")
_STOPS = ("exit", "session_finished")
EVENTS = frozenset(
    (
        *_STARTS,
        *_STOPS,
        *"assurance-change command attach attach-attempt stop-request stop-failed".split(),
        *"bootstrap_ready workspace_materialized".split(),
    )
)
KNOWN_KEYS = frozenset(
    "access_model agent agent_autonomy argv autonomy_assurance bootstrap_applied bootstrap_endpoints bootstrap_id "
    "cache_assurance cache_profile codex_rules_assurance_configured codex_rules_assurance_effective_final "
    "codex_rules_assurance_effective_initial codex_rules_mutability_configured codex_rules_mutability_effective_final "
    "codex_rules_mutability_effective_initial command container_assurance container_name debug_log_enabled endpoints event "
    "execution_path exit_status final_assurance force github_auth_present image_ref injection_credential_keys "
    "injection_policy_sha256 injection_secret_copy_targets injection_ssh_enabled log_level materialization_id mode "
    "network_policy observability_assurance package_mutation_downgraded prev_digest profile provider_auth_mode "
    "provider_auth_modes provider_native_sandbox_configured provider_native_sandbox_effective provider_native_sandbox_reason "
    "reason record_digest runtime_api session_assurance_final session_assurance_initial session_id shared_auth_modes source "
    "ssh_config_assurance status stdin_mode target_id target_kind target_provider timestamp transcript_logging "
    "transport_status ts ui v workspace workspace_control_plane workspace_origin workspace_repo_mcp workspace_transport".split()
)

_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))")


def milliseconds(text: str) -> int:
    """Return an RFC 3339 time as milliseconds since 1970, 0 where it is none."""
    found = _RFC3339.fullmatch(text)
    if not found:
        return 0
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    days = calendar.monthrange(year, month)[1] if 1 <= month <= 12 and year else 0
    if not 1 <= day <= days or hour > 23 or minute > 59 or second > 59:
        return 0
    seconds = calendar.timegm((year, month, day, hour, minute, second))
    if found[8]:
        offset = int(found[9]) * 3600 + int(found[10]) * 60
        if int(found[9]) > 23 or int(found[10]) > 59:
            return 0
        seconds -= offset if found[8] == "+" else -offset
    return seconds * 1000 + int(((found[7] or ".")[1:] + "000")[:3])


def _decode(line: bytes, provider: str) -> dict[str, str]:
    """Return the fields of a line; words without `=` are passed over, a key that is there twice is refused."""
    try:
        tokens = quoting.tokenizer(provider)(quoting.trim(line))
    except quoting.QuotingError as error:
        raise UnreadableError("audit record", str(error)) from None
    fields: dict[str, str] = {}
    for token in tokens:
        key, equals, value = token.decode("utf-8", "surrogateescape").partition("=")
        if equals and key in fields:
            raise UnreadableError("audit record", f"has the key {key!r} twice")
        if equals:
            fields[key] = value
    return fields


class Exporter:
    """Turns one session into OCSF events. home: the operator's, to be taken out; logged_ms: the time of the export."""

    def __init__(self, fields: "dict[str, Any]", home: str, logged_ms: int) -> None:
        self._fields, self._home, self._logged_ms = fields, home, logged_ms

    def lines(self, audit_lines: "Iterable[bytes]") -> "Iterator[str]":
        """Yield the session's event, then one for each audit line; raise UnreadableError for a line that is ambiguous."""
        yield self._line(self._session())
        session_id, provider = self._fields["session_id"], self._fields["target_provider"]
        for line in audit_lines:
            pairs = _decode(line, provider)
            if pairs.get("session_id") == session_id:
                yield self._line(self._event(pairs))

    @staticmethod
    def _line(event: "dict[str, Any]") -> str:
        text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") + "\n"

    def _clean(self, text: str) -> str:
        return redact.redact(text, self._home)

    def _frame(
        self, activity: int, time_text: str, severity: int, status: int, message: str, unmapped: dict[str, str]
    ) -> "dict[str, Any]":
        source = time_text.strip(BLANKS)
        event: dict[str, Any] = {
            "category_uid": 6,
            "category_name": "Application Activity",
            "class_uid": CLASS_UID,
            "class_name": "Application Lifecycle",
            "activity_id": activity,
            "activity_name": ACTIVITIES[activity],
            "type_uid": CLASS_UID * 100 + activity,
            "type_name": f"Application Lifecycle: {ACTIVITIES[activity]}",
            "time": milliseconds(source),
        }
        if source:
            event["time_dt"] = self._clean(source)
        event |= {
            "severity_id": severity,
            "severity": SEVERITIES[severity],
            "status_id": status,
            "status": STATUSES[status],
            "message": message,
            "metadata": {
                "version": SCHEMA_VERSION,
                "product": {"name": "workcell", "vendor_name": "Workcell"},
                "logged_time": self._logged_ms,
                "mapping_version": MAPPING_VERSION,
            },
        }
        app, device = self._app(), self._device()
        if app:
            event["app"] = app
        if device:
            event["device"] = device
        if unmapped:
            event["unmapped"] = dict(sorted(unmapped.items(), key=lambda pair: pair[0].encode("utf-8", "surrogateescape")))
        return event

    def _app(self) -> dict[str, str]:
        parts = [self._fields[name].strip(BLANKS) for name in ("agent", "mode")]
        name = self._clean("/".join(part for part in parts if part))
        uid = self._clean(self._fields["session_id"])
        if not name and not uid:
            return {}
        return {**({"name": name} if name else {}), "vendor_name": "Workcell", **({"uid": uid} if uid else {})}

    def _device(self) -> "dict[str, Any]":
        target, host = self._fields["target_id"], self._fields["container_name"]
        if not target.strip(BLANKS) and not host.strip(BLANKS):
            return {}
        named = (("name", target), ("hostname", host), ("uid", target))
        return {"type_id": 6, "type": "Virtual", **{key: self._clean(value) for key, value in named if value}}

    def _session(self) -> "dict[str, Any]":
        fields = self._fields
        code, ended = fields["exit_status"].strip(BLANKS), fields["finished_at"].strip(BLANKS)
        finished = bool(code or ended)
        severity = 3 if code and code != "0" else 1
        status = 0 if not finished or not code else 1 if code == "0" else 2
        if finished and fields["status"] in ("failed", "aborted"):
            severity, status = 3, 2
        activity = 4 if finished else 3
        unmapped = {"session.version": str(fields["version"])}
        for name in FIELDS:
            if name not in ("version", "session_id", "agent", "mode") and fields[name].strip(BLANKS):
                unmapped[f"session.{name}"] = self._clean(fields[name])
        message = self._clean(f"workcell session {fields['session_id']} {ACTIVITIES[activity]}")
        return self._frame(
            activity, fields["finished_at"] if ended else fields["started_at"], severity, status, message, unmapped
        )

    def _event(self, pairs: dict[str, str]) -> "dict[str, Any]":
        name = pairs.get("event", "")
        activity = 3 if name in _STARTS else 4 if name in _STOPS else 99 if name else 0
        code = pairs.get("exit_status", "").strip(BLANKS)
        severity = 3 if code and code != "0" else 1
        status = 0 if activity != 4 or not code else 1 if code == "0" else 2
        unmapped, unexpected = {}, []
        for key, value in pairs.items():
            if key in ("event", "session_id", "timestamp", "ts"):
                continue
            if key == "argv":
                unmapped["audit.argv"] = FREEFORM
            elif key not in KNOWN_KEYS:
                unexpected.append(f"{FREEFORM}={FREEFORM}")
            elif value.strip(BLANKS):
                unmapped[f"audit.{key}"] = self._clean(value)
        if name and name not in EVENTS:
            unexpected.append(f"event={FREEFORM}")
        if unexpected:
            unmapped["audit.unexpected_fields"] = " ".join(unexpected)
        message = f"workcell audit {name if name in EVENTS else ACTIVITIES[activity]}"
        return self._frame(activity, pairs.get("timestamp") or pairs.get("ts", ""), severity, status, message, unmapped)
