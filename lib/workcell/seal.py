"""The seal of a session: a signature over the head of its part of the audit chain, in a file beside its record.

See workcell-audit-seal(5).
"""

import os

from workcell import atomic, audit, canonical, clock, keys, layout, lock, quoting, record, safe_open, validators
from workcell.errors import UnreadableError, WorkcellError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

FIELDS = ("version", "session_id", "head_digest", "key_id", "algorithm", "signature", "signed_at")

_LIMIT_BYTES = 1 << 16


class Result:
    """What verify_session found.

    `verdict` is `verified`, `unsealed`, `torn`, `broken-chain`, `cut`, `wrong-key`, `bad-seal`, `path-mismatch`,
    `unreadable` or `unsupported`; `why` says it in words. `notes` are remarks that do not change the verdict.
    """

    def __init__(self, verdict: str, why: str = "", key_id: str = "", head_digest: str = "", signed_at: str = "") -> None:
        self.verdict, self.why, self.key_id, self.head_digest, self.signed_at = (
            verdict,
            why,
            key_id,
            head_digest,
            signed_at,
        )
        self.records = 0
        self.genuine_elsewhere = False
        self.notes: list[str] = []


# --- sealing


def seal_session(
    record_path: str,
    session_id: str,
    provider: str,
    signed_at: "str | None" = None,
    *,
    signing_dir: "str | None" = None,
    log_path: "str | None" = None,
    timeout_s: float = 30.0,
) -> "dict[str, Any] | None":
    """Seal a session and return the seal; None where its lines have no digests, so that there is nothing to sign.

    A seal that is there and fits the log is kept; one that does not fit is left alone and WorkcellError raised, because
    signing again would make whatever happened to the log look right. Raises WorkcellError too where the chain is
    broken, BusyError when the log stays locked, UnreadableError where log or key store cannot be trusted.
    """
    signing_dir = layout.signing_dir() if signing_dir is None else signing_dir
    log_path = layout.audit_log_path(record_path) if log_path is None else log_path
    try:
        log_dir_fd = safe_open.open_dir(os.path.dirname(log_path))
    except FileNotFoundError:
        raise WorkcellError(session_id, "cannot be sealed, there is no audit log") from None
    try:
        with lock.audit_log(log_dir_fd, os.path.basename(log_path), log_path, timeout_s):
            chain = _chain_of(log_path, session_id, provider)
            if chain.problem == "unsupported":
                return None
            if chain.problem:
                raise WorkcellError(
                    session_id, f"cannot be sealed, {chain.problem}: {chain.why}", "see workcell-session-verify"
                )
            there = _existing(record_path, session_id, chain.head, signing_dir)
            if there is not None:
                return there
            key = keys.load_or_make(signing_dir)
            seal = _make(key, session_id, chain.head, signed_at or clock.utc_now())
            dir_fd = safe_open.open_dir(os.path.dirname(record_path))
            try:
                atomic.replace_at(dir_fd, os.path.basename(layout.seal_path(record_path)), _encode(seal))
            finally:
                os.close(dir_fd)
            return seal
    finally:
        os.close(log_dir_fd)


def _chain_of(log_path: str, session_id: str, provider: str) -> audit.Chain:
    """Return the chain up to the last whole line: what a crash left torn after it is never sealed."""
    try:
        fd = audit.open_log(log_path)
    except FileNotFoundError:
        raise WorkcellError(session_id, "cannot be sealed, there is no audit log") from None
    try:
        size = os.fstat(fd).st_size
        chain = audit.check_chain(fd, size, log_path, session_id, provider)
        if chain.torn_tail:
            # The last line counts where it is whole but for its LF: only then is it part of a sound chain.
            whole = audit.check_chain(fd, audit.whole_end(fd, size), log_path, session_id, provider)
            if chain.problem:
                return whole
        return chain
    finally:
        os.close(fd)


def _existing(record_path: str, session_id: str, head: str, signing_dir: str) -> "dict[str, Any] | None":
    path = layout.seal_path(record_path)
    try:
        seal = read_seal(path)
    except FileNotFoundError:
        return None
    result = _check_seal(seal, session_id, head, signing_dir)
    if result.verdict != "verified":
        raise WorkcellError(
            session_id,
            f"has a seal that does not fit: {result.why}",
            f"see workcell-session-verify; move {path} away to seal again",
        )
    return seal


def _make(key: "Any", session_id: str, head: str, signed_at: str) -> "dict[str, Any]":
    import binascii

    signature = keys.sign(key, canonical.seal_message(session_id, head))
    return {
        "version": 1,
        "session_id": session_id,
        "head_digest": head,
        "key_id": keys.key_id(key.public_key()),
        "algorithm": keys.ALGORITHM,
        "signature": binascii.b2a_base64(signature, newline=False).decode(),
        "signed_at": signed_at,
    }


def _encode(seal: "dict[str, Any]") -> bytes:
    from workcell.output import json_text

    why = validators.audit_seal(seal)
    if why:
        raise UnreadableError("audit seal", why)
    return json_text(seal).encode()


# --- verifying


def read_seal(path: str) -> "dict[str, Any]":
    """Return a seal fitting schema audit-seal.

    Raises FileNotFoundError where there is none, UnreadableError where it is not to be trusted.
    """
    import json

    dir_fd = safe_open.open_dir(os.path.dirname(path))
    try:
        data = safe_open.read_file(dir_fd, os.path.basename(path), path, _LIMIT_BYTES)
    finally:
        os.close(dir_fd)
    try:
        seal = json.loads(data.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, f"is no seal: {error}") from None
    why = validators.audit_seal(seal)
    if why:
        raise UnreadableError(path, why)
    if type(seal["version"]) is not int:
        raise UnreadableError(path, "version: must be the integer 1")
    return dict(seal)


def _unique(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name is there twice")
    return fields


def verify_session(record_path: str, fields: "dict[str, Any]", signing_dir: "str | None" = None) -> Result:
    """Compare a session's part of the audit chain, computed anew, with its seal; nothing is written or locked."""
    return next(verify_sessions([(fields, record_path)], signing_dir))[2]


def verify_sessions(
    sessions: "Iterable[tuple[dict[str, Any], str]]",
    signing_dir: "str | None" = None,
    begin: "Callable[[str, int], None] | None" = None,
) -> "Iterator[tuple[dict[str, Any], str, Result]]":
    """Yield (fields, record path, what verify_session says) of sessions, in the order of their logs: each is read once.

    begin: told of each log before it is read, with the number of its sessions.
    """
    signing_dir = layout.signing_dir() if signing_dir is None else signing_dir
    groups: dict[tuple[str, bool], list[tuple[dict[str, Any], str]]] = {}
    for fields, path in sessions:
        percent = quoting.tokenizer(fields["target_provider"]) is quoting.tokenize_percent
        groups.setdefault((layout.audit_log_path(path), percent), []).append((fields, path))
    for (log_path, _), group in groups.items():
        if begin is not None:
            begin(log_path, len(group))
        results = _verify_group(log_path, group, signing_dir)
        for (fields, path), result in zip(group, results, strict=True):
            yield fields, path, result


def _verify_group(log_path: str, group: "list[tuple[dict[str, Any], str]]", signing_dir: str) -> "Iterator[Result]":
    # The seals are read first: a session that has one gets no more events, so the log that is read afterwards has all of it.
    known = [_before_the_log(fields, path, log_path) for fields, path in group]
    wanted = {
        fields["session_id"]: seal["head_digest"] if seal else ""
        for (fields, _), (early, seal) in zip(group, known, strict=True)
        if early is None
    }
    chains: dict[str, audit.Chain] | None = None
    fault = ""
    if wanted:
        try:
            chains = _snapshot_chains(log_path, wanted, group[0][0]["target_provider"])
        except UnreadableError as error:
            fault = str(error)
    for (fields, _), (early, seal) in zip(group, known, strict=True):
        chain = chains[fields["session_id"]] if chains is not None and early is None else None
        if early is not None:
            yield early
        elif fault and seal is None:
            yield Result("unsealed", f"it has no audit seal, and its log cannot be read: {fault}")
        elif fault:
            yield Result("unreadable", fault)
        elif seal is None:
            yield _unsealed(fields, chain)
        elif chain is None:
            yield Result("cut", "the audit log is gone, the seal is there")
        else:
            yield _compare(seal, fields, chain, signing_dir)


def _before_the_log(fields: "dict[str, Any]", path: str, log_path: str) -> "tuple[Result | None, dict[str, Any] | None]":
    """Return (a result that needs no log, None), or (None, the seal, None where there is none)."""
    if not fields["audit_log_path"].strip(canonical.BLANKS):
        return Result("path-mismatch", "its record names no audit log to verify"), None
    if not audit.is_canonical(fields["audit_log_path"], log_path):
        return Result("path-mismatch", "the audit log path in its record does not match its canonical location"), None
    try:
        seal = read_seal(layout.seal_path(path))
    except FileNotFoundError:
        return None, None
    except UnreadableError as error:
        return Result("bad-seal", str(error)), None
    why = _static_fault(seal, fields["session_id"])
    return (Result("bad-seal", why), None) if why else (None, seal)


def _compare(seal: "dict[str, Any]", fields: "dict[str, Any]", chain: audit.Chain, signing_dir: str) -> Result:
    result = _judge(seal, fields["session_id"], fields["target_provider"], chain, signing_dir)
    result.records = chain.lines
    result.signed_at = seal.get("signed_at", "")
    if chain.large_bytes:
        result.notes.append(f"the audit log has {chain.large_bytes} bytes, other readers refuse one above {64 << 20}")
    result.notes += [f"the clock went back between two records, {step}" for step in chain.steps_back]
    return result


def _snapshot_chains(log_path: str, wanted: "dict[str, str]", provider: str) -> "dict[str, audit.Chain] | None":
    """Return the chains of a log that others may be writing meanwhile, None where there is none."""
    for attempt in range(5):
        try:
            fd = audit.open_log(log_path)
        except FileNotFoundError:
            return None
        try:
            size = audit.snapshot_size(fd)
            chains = audit.check_chains(fd, size, log_path, wanted, provider)
            if size > audit.LARGE_LOG_BYTES:
                for chain in chains.values():
                    chain.large_bytes = size
            # A line that was torn when we looked and has gone on since was just being written, or just cut away.
            if not any(chain.torn_tail for chain in chains.values()) or os.fstat(fd).st_size == size:
                return chains
        except audit.ShrankError:
            if attempt == 4:
                raise
        finally:
            os.close(fd)
    return chains


def _unsealed(fields: "dict[str, Any]", chain: "audit.Chain | None") -> Result:
    if chain is not None and chain.problem == "unsupported":
        return Result("unsupported", "its audit records have no digest chain that could be signed")
    why = "it has no audit seal"
    if not record.is_terminal(fields):
        why += f", it is recorded as {fields['status']}"
    elif chain is not None and chain.problem:
        why += f"; {chain.problem}: {chain.why}"
    return Result("unsealed", why)


def _static_fault(seal: "dict[str, Any]", session_id: str) -> str:
    if seal["algorithm"] != keys.ALGORITHM:
        return f"seal has the unsupported algorithm {seal['algorithm'][:80]!r}"
    if seal["session_id"] != session_id:
        return f"seal is for session {seal['session_id'][:200]!r}"
    return "" if _signature(seal) is not None else "signature is no base64"


def _signature(seal: "dict[str, Any]") -> "bytes | None":
    import binascii

    text = seal["signature"]
    try:
        signature = binascii.a2b_base64(text.encode("ascii"))
    except ValueError:
        return None
    # The decoder passes over what it does not know; a seal has exactly what the encoder writes.
    return signature if binascii.b2a_base64(signature, newline=False).decode() == text else None


def _judge(seal: "dict[str, Any]", session_id: str, provider: str, chain: audit.Chain, signing_dir: str) -> Result:
    if chain.problem == "unsupported" and quoting.tokenizer(provider) is quoting.tokenize:
        return Result("broken-chain", "the digests are gone from its records")
    if chain.problem:
        return Result(chain.problem, chain.why)
    result = _check_seal(seal, session_id, chain.head, signing_dir)
    if result.verdict == "bad-seal" and result.genuine_elsewhere:
        if chain.holds_wanted:
            result.verdict, result.why = "broken-chain", "records of the session come after the one that was sealed"
        elif chain.torn_tail:
            result.verdict, result.why = "torn", "the record that was sealed is not in the log, whose last line is torn"
        else:
            result.verdict, result.why = (
                "cut",
                "the record that was sealed is not in the log: it was cut off or rewritten",
            )
    return result


def _check_seal(seal: "dict[str, Any]", session_id: str, head: str, signing_dir: str) -> Result:
    why = _static_fault(seal, session_id)
    if why:
        return Result("bad-seal", why)
    if not keys.is_key_id(seal["key_id"]):
        return Result("bad-seal", "its key id is empty or not lower-case hex")
    try:
        key = keys.public_key(signing_dir, seal["key_id"])
    except keys.UnknownKeyError as error:
        return Result("wrong-key", str(error))
    except UnreadableError as error:
        return Result("unreadable", str(error))
    signature = _signature(seal) or b""
    if keys.signature_fits(key, signature, canonical.seal_message(session_id, head)):
        return Result("verified", "", seal["key_id"], head)
    result = Result("bad-seal", "the signature does not fit the head of the chain under the host's key")
    named = seal["head_digest"]
    # A genuine seal over another head tells that the log was changed, not the seal.
    result.genuine_elsewhere = (
        named != head and named.isascii() and keys.signature_fits(key, signature, canonical.seal_message(session_id, named))
    )
    return result
