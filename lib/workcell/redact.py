"""Secrets and the operator's home folder out of a text, before others see it.

The rules are in workcell-redaction(7): they look for the shapes that secrets have, so what has none of them stays. All
of them take time that grows with the text and not faster.
"""

import re

_SPACE = r"[\t\n\f\r ]"
# A token begins where no letter or digit stands before it, but for the escapes of a quoted text (`\n`) and of a URL
# (`%20`).
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[abfnrtv0])|(?<=%[0-9A-Fa-f]{2}))"

_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY-----")

# The name of a secret, whole (the look-behind keeps the search from starting inside one), and the sign before its
# value.
_NAMED = re.compile(r"(?<![a-z0-9_.-])([a-z0-9_.-]+)\\?['\"]?" + _SPACE + "*[:=]" + _SPACE + "*", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|token|credential|(?:api|access|private|session)[_-]?key\Z", re.IGNORECASE
)
_VALUES = (
    re.compile(r'\\"(?:[^"\\]|\\[^\n])*\\"'),
    re.compile(r'"(?:[^"\\]|\\[^\n])*"'),
    re.compile(r"'(?:[^'\\]|\\[^\n])*'"),
)
_BARE_VALUE = re.compile(r"[^\t\n\f\r \"',]+")

# (what such a token has in any case, its shape, what stands for it)
_TOKENS = (
    ("", _START + "bearer" + _SPACE + r"+[A-Za-z0-9._~+/-]+=*", "Bearer [REDACTED]"),
    ("gh", _START + r"gh[pousr]_[A-Za-z0-9]{20,255}", "[REDACTED-TOKEN]"),
    ("github_pat_", _START + r"github_pat_[A-Za-z0-9_]{20,255}", "[REDACTED-TOKEN]"),
    ("x", _START + r"(?:(?:xox[baprs]|xapp|xwfp)-|xoxe[.-])[A-Za-z0-9._-]{10,}", "[REDACTED-TOKEN]"),
    ("IA", _START + r"A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])", "[REDACTED-TOKEN]"),
    ("sk-", _START + r"sk-[A-Za-z0-9_-]{20,}", "[REDACTED-TOKEN]"),
    ("AIza", _START + r"AIza[0-9A-Za-z_-]{20,}", "[REDACTED-TOKEN]"),
    ("ya29.", _START + r"ya29\.[0-9A-Za-z_-]+", "[REDACTED-TOKEN]"),
    ("eyJ", _START + r"eyJ[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]*", "[REDACTED-JWT]"),
)


def redact(text: str, home: str = "") -> str:
    """Return a text with the home folder as `~` and secrets as `[REDACTED...]`."""
    if not text:
        return text
    home = home.rstrip("/")
    if home and home in text:
        text = re.sub(r"(?<![\w.~%+-])" + re.escape(home) + r"(?=[/ \"':;,=)\]}\\]|\Z)", "~", text)
    if "-----BEGIN " in text:
        text = _without_private_keys(text)
    if ":" in text or "=" in text:
        text = _without_named_secrets(text)
    bearer = "bearer" in text.lower()
    for part, shape, replacement in _TOKENS:
        if part in text if part else bearer:
            text = re.sub(shape, replacement, text, flags=0 if part else re.IGNORECASE)
    return text


def _without_private_keys(text: str) -> str:
    kept: list[str] = []
    at = 0
    while True:
        begin = _PEM_BEGIN.search(text, at)
        if begin is None:
            return "".join(kept) + text[at:]
        kept += [text[at : begin.start()], "[REDACTED-PRIVATE-KEY]"]
        end = _PEM_END.search(text, begin.end())
        if end is None:  # cut off in the middle of a key: the rest is key
            return "".join(kept)
        at = end.end()


def _without_named_secrets(text: str) -> str:
    kept: list[str] = []
    at = 0
    while True:
        named = _NAMED.search(text, at)
        if named is None:
            return "".join(kept) + text[at:]
        value_at = named.end()
        if not _SECRET_NAME.search(named.group(1)):
            # The value of a harmless name may itself be a name with a value.
            kept.append(text[at : named.end(1)])
            at = named.end(1)
            continue
        kept.append(text[at:value_at])
        end = _value_end(text, value_at)
        if end > value_at:
            kept.append("[REDACTED]")
        at = end


def _value_end(text: str, at: int) -> int:
    """Return where the value that begins at a place ends; one whose quote never closes ends with the text."""
    for pattern in _VALUES:
        match = pattern.match(text, at)
        if match:
            return match.end()
    if text.startswith(('"', "'", '\\"'), at):
        return len(text)
    match = _BARE_VALUE.match(text, at)
    return match.end() if match else at
