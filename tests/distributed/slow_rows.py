"""Functions that tests map over rows, in a module of their own so that workers can import it."""

import os
import time


def slowly(X):
    """Return the rows after a little while."""
    time.sleep(0.03)
    return X


class CopiedOnce:
    """Rows as they are, by something that can be sent to a worker, but not from there, as an open session."""

    def __init__(self, is_there=False):
        self.is_there = is_there

    def __call__(self, X):
        return X

    def __reduce__(self):
        if self.is_there:
            raise TypeError("cannot pickle a session")
        return CopiedOnce, (True,)


def deadly(X):
    """End the process that visits the rows, as an operating system does that is out of memory."""
    os._exit(1)
