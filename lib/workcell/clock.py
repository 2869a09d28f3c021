"""The time of day as the files write it, and a clock that never goes back."""

import time


def utc_now() -> str:
    """Return the time now as `YYYY-MM-DDTHH:MM:SSZ` (UTC, whole seconds)."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def monotonic_s() -> float:
    """Return seconds on a clock that neither jumps nor goes back (clock_gettime(2), CLOCK_MONOTONIC)."""
    return time.monotonic()
