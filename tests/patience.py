"""How long tests wait for another process or thread: for what happens, and no longer."""

import time

#: Longest time to wait for anything. It only ends a test that hangs: however slow a machine is, this must be enough.
SECONDS = 600


def until(happened):
    """Wait for something, and return what it was."""
    end = time.monotonic() + SECONDS
    while not (what := happened()):
        assert time.monotonic() < end, f"nothing happened in {SECONDS} seconds"
        time.sleep(0.01)
    return what
