"""The life of all three clients: nothing works before they are open, or after they are closed."""

import pytest

from orbitmq import Producer, PullConsumer, PushConsumer
from orbitmq.errors import ClientError

MAKERS = [Producer, PullConsumer, PushConsumer]


async def use(client):
    if isinstance(client, PushConsumer):
        return await client.next_batch(timeout_ms=10)
    return await client.queues("orders")


@pytest.mark.parametrize("make", MAKERS)
async def test_a_client_that_is_not_open_says_how_to_open_it(make):
    with pytest.raises(ClientError, match=rf"the {make.__name__} is not open: use 'async with {make.__name__}\(...\)'"):
        await use(make("g", "127.0.0.1:1"))


@pytest.mark.parametrize("make", [Producer, PullConsumer])
async def test_a_closed_client_does_nothing_more(make):
    client = make("g", "127.0.0.1:1")
    async with client as entered:
        assert entered is client

    with pytest.raises(ClientError, match="not open"):
        await use(client)
    await client.close()  # a second time: nothing
