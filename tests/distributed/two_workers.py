"""What tests on a real cluster share: its size, and patience."""

import logging
import time
from contextlib import contextmanager

from distributed import LocalCluster

from flipproof.cli.cluster import no_worker_is_given_up

#: Longest time to wait for what happens soon, unless something is wrong.
SECONDS = 60


@contextmanager
def local_cluster(n_workers=2):
    """Start worker processes of one thread each, which keep quiet about errors that tests provoke."""
    with (
        no_worker_is_given_up(),  # tests that kill one after the other would leave none
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any free port: None is 8787, of which there is one
            worker_dashboard_address=None,
            silence_logs=logging.CRITICAL + 1,
        ) as cluster,
    ):
        yield cluster


def until(happened):
    """Wait for something."""
    end = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)
