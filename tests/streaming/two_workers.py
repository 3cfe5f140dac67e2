"""What tests on a real cluster share: its size, and how to watch it."""

import logging
from contextlib import contextmanager

from distributed import Client, LocalCluster

from flipproof.cli.workers import no_worker_is_given_up
from flipproof.streaming.dask_cluster import TOPIC


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


@contextmanager
def watching(cluster, handle):
    """Call a function for each part that has been visited, by whichever client of the cluster."""
    with Client(cluster, set_as_default=False) as client:
        client.subscribe_topic(TOPIC, handle)
        client.submit(int).result()  # takes the same way: once it is back, the scheduler knows who is watching
        yield
        client.unsubscribe_topic(TOPIC)
