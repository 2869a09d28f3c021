"""The module `signal` without its enumerations: loading those costs each command more than all else of the library it has.

Numbers are plain integers and handlers what was given; whoever wants the name of a number imports `signal` itself.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal
    except ImportError:
        import signal

__all__ = ["signal"]
