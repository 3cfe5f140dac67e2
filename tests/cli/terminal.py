"""Commands whose talk goes to a terminal."""

import os
import subprocess
import sys

#: A process that was started in the background ignores Ctrl-C, unless it is told to listen.
LISTENING = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from flipproof.cli import main; main()",
]


def signalled(folder, arguments, moment, number):
    """Run a command on a terminal, send a signal when it says `moment`, and return its code, data and talk."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [*LISTENING, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True
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
                process.send_signal(number)
                sent = True
            if not part:
                break
        data, _ = process.communicate(timeout=60)
    os.close(ours)
    return process.returncode, data, talk.decode()
