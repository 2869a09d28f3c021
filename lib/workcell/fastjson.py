"""The functions of json that records and small files of ours are read and written with, without its package.

json imports re, and the two together cost half of what starting Python costs; a command that shows one record would do little
else. Where the interpreter has no `_json`, the package is what there is.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    scan_once: "Callable[[str, int], tuple[Any, int]]"
    quoted: "Callable[[str], str]"
    dumps: "Callable[[Any], str]"
else:
    try:
        from _json import encode_basestring as quoted
        from _json import encode_basestring_ascii, make_encoder, make_scanner
    except ImportError:
        from json import JSONDecoder, dumps
        from json.encoder import encode_basestring as quoted

        scan_once = JSONDecoder().scan_once
    else:

        def _constant(name):
            raise ValueError(f"{name} is no JSON")

        class _Rules:
            strict, object_hook, object_pairs_hook = True, None, None
            parse_float, parse_int, parse_constant = float, int, _constant

        scan_once = make_scanner(_Rules)

        def _unknown(value):
            raise TypeError(f"{type(value).__name__} is no JSON")

        _encode = make_encoder(None, _unknown, encode_basestring_ascii, None, ": ", ", ", False, False, False)

        def dumps(value):
            """Return a value as JSON in ASCII, on one line; raise TypeError or ValueError for what is none."""
            return "".join(_encode(value, 0))


# What scan_once raises for what is no JSON. Without the package loaded some interpreters find no class for their error and
# raise SystemError in its place.
FAULTS = (ValueError, StopIteration, RecursionError, SystemError)


def loads(text: str | bytes) -> "Any":
    """Return the value of a whole JSON text, UTF-8 where it is bytes; raise ValueError for what is none."""
    text = (text.decode() if isinstance(text, bytes) else text).strip(" \t\n\r")
    try:
        value, end = scan_once(text, 0)
    except FAULTS:
        raise ValueError("is no JSON") from None
    if end != len(text):
        raise ValueError("has more than one JSON value")
    return value


__all__ = ["FAULTS", "dumps", "loads", "quoted", "scan_once"]
