import asyncio
import inspect
from functools import partial

import pytest

from orbitmq.net.loop import run
from unit.client.fakes import FakeCluster

LIMIT_S = 30
"""A test that hangs fails with the place where it hangs; no test takes this long."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run `async def` tests on the loop that orbitmq uses; one that takes `cluster` gets a fake one of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def test():
        async with asyncio.timeout(LIMIT_S):
            if "cluster" in arguments:
                async with FakeCluster() as cluster:
                    await pyfuncitem.obj(**{**arguments, "cluster": cluster})
            else:
                await pyfuncitem.obj(**arguments)

    run(test())
    return True


@pytest.fixture
def cluster():
    """A FakeCluster; the hook above opens it on the test's loop."""
    return partial(FakeCluster)
