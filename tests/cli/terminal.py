"""Commands whose messages go to a terminal."""

import os
import subprocess
import sys
import threading

from patience import SECONDS, until

#: A process started in the background ignores Ctrl-C unless it sets a handler.
LISTENING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from flipproof.cli import main
main()
"""

#: Makes a command wait for the signal after it prints `moment`: it might finish before the signal arrives.
WAITING = """
import time
from contextlib import contextmanager
from flipproof.cli import talk

def waiting(say):
    def say_and_wait(text):
        say(text)
        end = time.monotonic() + {seconds} * ({moment!r} in text)
        while time.monotonic() < end:  # a sleeping thread may miss a signal that another thread received
            time.sleep(0.01)
    return say_and_wait

@contextmanager
def progress(*arguments, begin=talk.progress):
    with begin(*arguments) as step:
        yield waiting(step)

talk.say, talk.progress = waiting(talk.say), progress
"""


def signalled(folder, arguments, moment, number, to_all=False, is_waiting=True):
    """Run a command on a terminal, send a signal when it prints `moment`, and return its exit code, stdout and stderr.

    With `to_all`, its child processes get the signal too, as with Ctrl-C in a shell; none may be left at the end.
    Without `is_waiting`, the command keeps running until the signal arrives.
    """
    import pty

    ours, theirs = pty.openpty()
    script = WAITING.format(moment=moment, seconds=SECONDS) if is_waiting else ""
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-c", script + LISTENING, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        process_group=0 if to_all else None,
    ) as process:
        os.close(theirs)
        hangs = threading.Timer(SECONDS, process.kill)
        hangs.daemon = True
        hangs.start()
        talk, sent = b"", False
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the terminal was closed at the other end
                break
            talk += part
            if not sent and moment.encode() in talk:
                if to_all:
                    os.killpg(process.pid, number)
                else:
                    process.send_signal(number)
                sent = True
            if not part:
                break
        data, _ = process.communicate()
        hangs.cancel()
    os.close(ours)
    assert sent
    if to_all:
        until(lambda: _is_gone(process.pid))
    return process.returncode, data, talk.decode()


def _is_gone(group):
    """Return whether all processes of a group have ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
