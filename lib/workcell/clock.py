"""The time of day as the files write it, and a clock that never goes back."""

import time

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_UNIT_NAMES = ((60, "second", 1), (3600, "minute", 60), (86400, "hour", 3600), (7 * 86400, "day", 86400))


def utc_now() -> str:
    """Return the time now as `YYYY-MM-DDTHH:MM:SSZ` (UTC, whole seconds)."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def monotonic_s() -> float:
    """Return seconds on a clock that neither jumps nor goes back (clock_gettime(2), CLOCK_MONOTONIC)."""
    return time.monotonic()


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _seconds(text: str) -> float:
    """Return an ISO 8601 time as seconds since 1970, UTC unless it says otherwise; raise ValueError."""
    from datetime import UTC, datetime

    when = datetime.fromisoformat(text)
    try:
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except OverflowError as error:
        raise ValueError(str(error)) from None


def in_utc(text: str) -> str:
    """Return a time as `YYYY-MM-DDTHH:MM:SSZ`, "" where the text is none."""
    try:
        return _utc(_seconds(text.strip()))
    except (ValueError, OverflowError, OSError):
        return ""


def bound(text: str, last: bool = False) -> str:
    """Return the time that an operator means, as `YYYY-MM-DDTHH:MM:SSZ`; raise ValueError where it is none.

    `90s`, `30m`, `12h`, `7d`, `2w`: that long ago; else a date or a time (ISO 8601), UTC unless it says otherwise. last: of
    a date its last second, else its first.
    """
    if text[-1:] in _UNITS_S and text[:-1].isascii() and text[:-1].isdigit():
        try:
            return _utc(max(0.0, time.time() - int(text[:-1]) * _UNITS_S[text[-1]]))
        except OverflowError:
            return _utc(0)
    seconds = _seconds(text)
    if last and len(text) <= 10 and "T" not in text.upper():
        seconds += 86399
    return _utc(seconds)


def for_people(text: str, now_s: float) -> str:
    """Return a time as people say it: how long ago, or of one more than a week away its local date and time.

    What is no time is returned as it is.
    """
    try:
        then_s = _seconds(text)
        ago = abs(now_s - then_s)
        for limit, name, unit in _UNIT_NAMES:
            if ago < limit:
                count = int(ago // unit)
                words = f"{count} {name}{'' if count == 1 else 's'}"
                return f"{words} ago" if now_s >= then_s else f"in {words}"
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(then_s))
    except (ValueError, OverflowError, OSError):
        return text
