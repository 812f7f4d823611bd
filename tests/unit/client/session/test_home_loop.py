import asyncio

import pytest

from orbitmq.client.session.home_loop import HomeLoop
from orbitmq.errors import ClientError


def settled():
    """Return a home on a loop that is closed by now."""
    home = HomeLoop("Producer")

    async def settle():
        home.settle()
        home.check()

    asyncio.run(settle())
    return home


def check_in_a_loop(home):
    async def check():
        home.check()

    asyncio.run(check())


def test_who_has_no_home_may_be_used_anywhere():
    home = HomeLoop("Producer")
    home.check()
    check_in_a_loop(home)
    home = settled()
    home.leave()
    home.check()
    check_in_a_loop(home)


@pytest.mark.parametrize("check", [check_in_a_loop, lambda home: home.check()])
def test_another_loop_and_no_loop_are_refused_with_what_to_do(check):
    with pytest.raises(
        ClientError, match=r"^this Producer belongs to another event loop, which is closed: .*orbitmq\.blocking"
    ):
        check(settled())


async def test_a_home_that_lives_is_not_called_closed():
    home = HomeLoop("Producer")
    home.settle()
    with pytest.raises(ClientError, match="belongs to another event loop: open one"):
        await asyncio.to_thread(home.check)
    home.check()


def test_the_first_loop_stays_the_home():
    home = settled()

    async def settle_again():
        home.settle()
        home.check()

    with pytest.raises(ClientError, match="another event loop"):
        asyncio.run(settle_again())
