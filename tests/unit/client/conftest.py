import inspect

import pytest

from unit.client.fakes import FakeCluster


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Open the `cluster` of an async test on the test's own loop; tests/conftest.py runs it there."""
    test = pyfuncitem.obj
    if "cluster" not in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(test):
        return

    async def with_cluster(cluster, **others):
        async with cluster() as opened:
            await test(cluster=opened, **others)

    pyfuncitem.obj = with_cluster


@pytest.fixture
def cluster():
    """A FakeCluster; the hook above opens it on the test's loop."""
    return FakeCluster
