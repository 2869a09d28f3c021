"""Whether a value fits its schema, told as an error.

The rules are in schema/*.json, compiled into validators.py; schema/README.md says who writes and who reads each kind.
"""

from workcell import errors


def check(kind: str, value: object, what: str = "") -> None:
    """Raise errors.UnreadableError unless `value` fits the schema of `kind`, such as 'session-record'.

    The error names `what` (a path, say; the kind if it is empty), then the first field that is wrong, and why. JSON
    Schema takes 1.0 for an integer, but the other readers of our files do not: a number with a fraction part is refused
    here even where it is zero.
    """
    from workcell import validators

    if kind not in validators.KINDS:
        raise ValueError(f"no schema {kind!r}")
    why: str | None = getattr(validators, kind.replace("-", "_"))(value)
    if why is None and isinstance(value, dict) and float in map(type, value.values()):
        field = next(name for name, item in value.items() if type(item) is float)
        why = f"{field}: must be an integer, written without a decimal point"
    if why is not None:
        raise errors.UnreadableError(what or kind, why)
