"""What the launch and the end of a session say in the audit log, and the labels that both share with the record.

Keys stand in the order in which they are written, those that do not apply with their neutral value; workcell-audit-log(5).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MANAGED_READONLY = "managed-readonly"
MANAGED_MUTABLE = "managed-mutable"
UNCONFINED = "lower-assurance-unconfined"
PERSISTENT_CACHE = "lower-assurance-persistent-cache"
DEBUG_COMMAND = "lower-assurance-debug-command"
PACKAGE_MUTATION = "lower-assurance-package-mutation"
NO_DIGEST = ""

_NATIVE_SANDBOX = {
    "codex": ("disabled", "workcell-pinned-off-due-to-bwrap-userns-incompatibility"),
    "claude": ("deferred", "deferred-until-runtime-prereqs-and-validation"),
    "copilot": ("disabled", "workcell-pinned-off-until-provider-permission-surfaces-are-reviewed"),
    "gemini": ("disabled", "workcell-pinned-off-until-validated"),
}


def confined(spec: "dict[str, Any]") -> bool:
    """Say whether the session's target confines it at all."""
    return bool(spec["target_kind"] != "local_process")


def labels(spec: "dict[str, Any]", debug_agent: bool) -> dict[str, str]:
    """Return the assurance labels of a record for a launch spec."""
    if not confined(spec):
        assurance = execution = UNCONFINED
        control_plane = "unmasked"
    else:
        assurance = PERSISTENT_CACHE if "home_path" in spec else _container(spec)
        if debug_agent:
            execution = DEBUG_COMMAND
        elif spec["mode"] in ("breakglass", "development"):
            execution = f"lower-assurance-{spec['mode']}"
        else:
            execution = "managed-tier1"
        protected = spec["workspace_mode"] == "direct" and spec["mode"] != "breakglass"
        control_plane = "readonly-vcs" if protected else "unmasked"
    return {
        "execution_path": execution,
        "initial_assurance": assurance,
        "current_assurance": assurance,
        "workspace_control_plane": control_plane,
        "workspace_repo_mcp": "unmasked",
    }


def _container(spec: "dict[str, Any]") -> str:
    if not confined(spec):
        return UNCONFINED
    return MANAGED_MUTABLE if spec.get("container_mutability") == "ephemeral" else MANAGED_READONLY


def _shared(spec: "dict[str, Any]") -> dict[str, str]:
    agent, autonomy = spec["agent"], spec["agent_autonomy"]
    configured, reason = _NATIVE_SANDBOX.get(agent, ("disabled", "not-applicable"))
    codex = agent == "codex"
    if spec["transcript"]:
        observability = "lower-assurance-host-transcript"
    elif spec.get("debug_log_path"):
        observability = "lower-assurance-host-debug-log"
    elif spec.get("file_trace_log_path"):
        observability = "lower-assurance-host-file-trace"
    else:
        observability = "managed-metadata-only"
    mutability = ("session" if autonomy == "prompt" else "readonly") if codex else "not-applicable"
    rules = ("lower-assurance-session-rules" if autonomy == "prompt" else "managed-immutable-rules") if codex else mutability
    return {
        "profile": spec["profile"],
        "mode": spec["mode"],
        "agent": agent,
        "agent_autonomy": autonomy,
        "autonomy_assurance": "managed-yolo" if autonomy == "yolo" else "lower-assurance-prompt-autonomy",
        "cache_profile": "standard" if "home_path" in spec else "off",
        "cache_assurance": PERSISTENT_CACHE if "home_path" in spec else "managed-no-persistent-cache",
        "container_assurance": _container(spec),
        "codex_rules_mutability_configured": "readonly",
        "codex_rules_assurance_configured": "managed-immutable-rules" if codex else "not-applicable",
        "codex_rules_mutability_effective_initial": mutability,
        "codex_rules_assurance_effective_initial": rules,
        "codex_rules_mutability_effective_final": mutability,
        "codex_rules_assurance_effective_final": rules,
        "provider_native_sandbox_configured": configured,
        "provider_native_sandbox_effective": "disabled",
        "provider_native_sandbox_reason": reason,
        "observability_assurance": observability,
        "log_level": "debug" if spec.get("debug_log_path") else "normal",
        "debug_log_enabled": "1" if spec.get("debug_log_path") else "0",
        "transcript_logging": "full" if spec["transcript"] else "off",
        "injection_policy_sha256": NO_DIGEST,
        # Names only: what a value was is nobody's business after the launch.
        "injection_credential_keys": ",".join(spec["env_names"]),
        "provider_auth_mode": "none",
        "provider_auth_modes": "none",
        "shared_auth_modes": "none",
        "github_auth_present": "1" if {"GH_TOKEN", "GITHUB_TOKEN"} & set(spec["env_names"]) else "0",
        "injection_ssh_enabled": "0",
        "ssh_config_assurance": "off",
        "injection_secret_copy_targets": "",
        "ui": "cli",
        "network_policy": "allowlist" if spec["network"] == "none" else "unrestricted",
        "workspace": spec["workspace"],
        "endpoints": "",
        "bootstrap_applied": "0",
        "bootstrap_endpoints": "",
    }


LAUNCH_KEYS = (
    "profile mode agent agent_autonomy autonomy_assurance cache_profile cache_assurance codex_rules_mutability_configured "
    "codex_rules_assurance_configured codex_rules_mutability_effective_initial codex_rules_assurance_effective_initial "
    "provider_native_sandbox_configured provider_native_sandbox_effective provider_native_sandbox_reason "
    "observability_assurance log_level debug_log_enabled transcript_logging injection_policy_sha256 "
    "injection_credential_keys provider_auth_mode provider_auth_modes shared_auth_modes github_auth_present "
    "injection_ssh_enabled ssh_config_assurance injection_secret_copy_targets ui network_policy execution_path workspace "
    "workspace_control_plane workspace_repo_mcp endpoints bootstrap_applied bootstrap_endpoints container_assurance "
    "session_assurance_initial"
).split()

CHANGE_KEYS = (
    "profile mode agent workspace reason codex_rules_mutability_effective_final codex_rules_assurance_effective_final "
    "session_assurance_final"
).split()

EXIT_KEYS = (
    "profile mode agent workspace execution_path workspace_control_plane workspace_repo_mcp exit_status cache_profile "
    "cache_assurance container_assurance autonomy_assurance observability_assurance log_level debug_log_enabled "
    "transcript_logging injection_policy_sha256 injection_credential_keys provider_auth_mode provider_auth_modes "
    "shared_auth_modes github_auth_present injection_ssh_enabled ssh_config_assurance codex_rules_mutability_configured "
    "codex_rules_assurance_configured codex_rules_mutability_effective_final codex_rules_assurance_effective_final "
    "provider_native_sandbox_configured provider_native_sandbox_effective provider_native_sandbox_reason "
    "session_assurance_initial session_assurance_final package_mutation_downgraded"
).split()


def launch(spec: "dict[str, Any]", record: "dict[str, Any]") -> list[tuple[str, str]]:
    """Return the pairs of the `launch` event, after event and session_id, in their order."""
    values = _shared(spec) | {key: record[key] for key in _FROM_RECORD}
    values["session_assurance_initial"] = record["initial_assurance"]
    return [(key, values[key]) for key in LAUNCH_KEYS]


def assurance_change(spec: "dict[str, Any]", final: str, reason: str) -> list[tuple[str, str]]:
    """Return the pairs of the `assurance-change` event, which comes before `exit` where an end is worth less than the start."""
    values = _final(spec, final) | {"reason": reason}
    return [(key, values[key]) for key in CHANGE_KEYS]


def exit_full(
    spec: "dict[str, Any]", record: "dict[str, Any]", exit_status: int, reason: str, final: str
) -> list[tuple[str, str]]:
    """Return the pairs of the full `exit` event; a reason (a word) is added when there is one."""
    values = _final(spec, final) | {key: record[key] for key in _FROM_RECORD}
    values["session_assurance_initial"] = record["initial_assurance"]
    values["exit_status"] = str(exit_status)
    values["package_mutation_downgraded"] = "1" if final == PACKAGE_MUTATION else "0"
    pairs = [(key, values[key]) for key in EXIT_KEYS]
    return [*pairs, ("reason", reason)] if reason else pairs


def _final(spec: "dict[str, Any]", final: str) -> dict[str, str]:
    values = _shared(spec) | {"session_assurance_final": final}
    if spec["agent"] == "codex" and final == PACKAGE_MUTATION:
        values["codex_rules_mutability_effective_final"] = "session"
        values["codex_rules_assurance_effective_final"] = "lower-assurance-session-rules"
    return values


def exit_short(source: str, exit_status: int, reason: str, final: str) -> list[tuple[str, str]]:
    """Return the pairs of the short `exit` event, for a session whose launch spec is gone or that somebody else ends."""
    pairs = [("source", source), ("exit_status", str(exit_status)), ("final_assurance", final)]
    return [*pairs, ("reason", reason)] if reason else pairs


_FROM_RECORD = ("execution_path", "workspace_control_plane", "workspace_repo_mcp")
