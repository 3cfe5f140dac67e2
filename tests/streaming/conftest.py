"""A cluster of two worker processes, for each file of tests that asks for it."""

import pytest
from distributed import Client
from patience import until
from two_workers import local_cluster


@pytest.fixture(scope="module")
def cluster():
    with local_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def only_client(cluster):
    with Client(cluster) as client:
        yield client


@pytest.fixture
def client(only_client):
    """The client that is active, of a cluster whose two workers are both there."""
    # asks the scheduler: what the cluster believes of workers that were started anew may be out of date
    until(lambda: len(only_client.nthreads()) == 2)
    return only_client
