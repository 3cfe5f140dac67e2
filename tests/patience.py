"""How long tests wait for another process or thread."""

import time

#: Longest wait, in seconds. It only ends tests that hang: it must be enough even on a slow machine.
SECONDS = 600


def until(happened):
    """Wait until `happened` returns a true value, and return that value."""
    end = time.monotonic() + SECONDS
    while not (what := happened()):
        assert time.monotonic() < end, f"nothing happened in {SECONDS} seconds"
        time.sleep(0.01)
    return what
