"""A Dask cluster for the tests of a module: it starts in a second.

Its processes are not idle when nobody asks them: kept to the end of all tests, they take minutes.
"""

import warnings
from collections.abc import Iterator

import pytest

from tests.support.loops import NEW_LOOPS


@pytest.fixture(scope="module")
def client():
    """A synchronous client of a cluster of three workers, each a process."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        # Of Dask's own: sockets that its processes leave to the collector.
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0")
        client = distributed.Client(cluster)
        yield client
        client.close()
        cluster.close()


@pytest.fixture
def workers(client):
    """The addresses of its workers."""
    client.wait_for_workers(3)
    return sorted(client.scheduler_info()["workers"])


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pyfunc_call() -> Iterator[None]:
    """Messages whose reply nobody awaits may be under way when a test ends: they are delivered."""
    result = yield
    NEW_LOOPS.settle()
    return result
