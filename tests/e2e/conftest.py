import asyncio
import inspect

import pytest

from orbitmq.net.loop import run

LIMIT_S = 120
"""A test that hangs fails with the place where it hangs; no test takes this long."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run `async def` tests on the loop that orbitmq uses."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def test():
        async with asyncio.timeout(LIMIT_S):
            await pyfuncitem.obj(**arguments)

    run(test())
    return True
