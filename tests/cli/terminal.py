"""Commands whose talk goes to a terminal."""

import os
import subprocess
import sys
import time

#: A process that was started in the background ignores Ctrl-C, unless it is told to listen.
LISTENING = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from flipproof.cli import main; main()",
]


def signalled(folder, arguments, moment, number, to_all=False):
    """Run a command on a terminal, send a signal when it says `moment`, and return its code, data and talk.

    With `to_all`, its processes get the signal too, as by Ctrl-C in a shell; none of them must be left in the end.
    """
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [*LISTENING, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        process_group=0 if to_all else None,
    ) as process:
        os.close(theirs)
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
        data, _ = process.communicate(timeout=60)
    os.close(ours)
    assert not to_all or _is_gone(process.pid)
    return process.returncode, data, talk.decode()


def _is_gone(group, patience=20):
    """Wait until no process of a group is left, and return whether that came to pass."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
