"""The two functions of json that a record is read and printed with, without its package.

json imports re, and the two together cost half of what starting Python costs; a command that shows one record would do little
else. Where the interpreter has no `_json`, the package is what there is.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    scan_once: "Callable[[str, int], tuple[Any, int]]"
    quoted: "Callable[[str], str]"
else:
    try:
        from _json import encode_basestring as quoted
        from _json import make_scanner
    except ImportError:
        from json import JSONDecoder
        from json.encoder import encode_basestring as quoted

        scan_once = JSONDecoder().scan_once
    else:

        def _constant(name):
            raise ValueError(f"{name} is no JSON")

        class _Rules:
            strict, object_hook, object_pairs_hook = True, None, None
            parse_float, parse_int, parse_constant = float, int, _constant

        scan_once = make_scanner(_Rules)

# What scan_once raises for what is no JSON. Without the package loaded some interpreters find no class for their error and
# raise SystemError in its place.
FAULTS = (ValueError, StopIteration, RecursionError, SystemError)

__all__ = ["FAULTS", "quoted", "scan_once"]
