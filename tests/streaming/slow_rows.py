"""Functions that tests map over rows, in a module of their own so that workers can import it."""

import os
import time

from patience import until


def slowly(X):
    """Return the rows after a little while."""
    time.sleep(0.03)
    return X


class HeldBack:
    """Lets the first rows pass, and all others only once they are let go."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, X):
        try:
            (self.folder / "first").touch(exist_ok=False)
        except FileExistsError:
            until((self.folder / "go").exists)
        return X

    def let_go(self):
        (self.folder / "go").touch()


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
