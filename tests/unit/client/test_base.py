"""The life of all clients: nothing works before they are open, after they are closed, or on another loop."""

import asyncio
import inspect

import pytest

from orbitmq import Producer, PullConsumer, PushConsumer, SimpleConsumer, TransactionProducer
from orbitmq.admin import AdminClient
from orbitmq.client.loop_thread import LoopThread
from orbitmq.errors import ClientError, NoNameServer
from orbitmq.model.message import Message, StoredMessage
from orbitmq.model.route import MessageQueue
from unit.client.fakes import FakeCluster

pytestmark = pytest.mark.real

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


def stored():
    return StoredMessage(
        topic="orders", body=b"", properties={}, queue_id=0, queue_offset=0, physical_offset=0, store_size=0
    )


QUEUE = MessageQueue("orders", "broker-a", 0)
USES = {
    Producer: [
        lambda client: client.send(Message("orders", b"")),
        lambda client: client.send_soon(Message("orders", b"")),
        lambda client: client.send_oneway(Message("orders", b"")),
        lambda client: client.send_batch([Message("orders", b"")]),
        lambda client: client.request(Message("orders", b"")),
        lambda client: client.queues("orders"),
        lambda client: client.flush(),
        lambda client: client.close(),
    ],
    TransactionProducer: [lambda client: enter(client.transaction(Message("orders", b"")))],
    PullConsumer: [
        lambda client: client.assign([QUEUE]),
        lambda client: client.poll(),
        lambda client: client.seek(QUEUE, 0),
        lambda client: client.end_offset(QUEUE),
        lambda client: client.close(),
    ],
    SimpleConsumer: [lambda client: client.receive(), lambda client: client.ack(stored())],
    PushConsumer: [
        lambda client: client.subscribe("others"),
        lambda client: client.unsubscribe("orders"),
        lambda client: client.next_batch(),
        lambda client: client.commit_offsets(),
        lambda client: client.use_name_servers("127.0.0.1:1"),
        lambda client: client.close(),
    ],
}


async def enter(transaction):
    async with transaction:
        pass


async def refused(use, client):
    """Use a client on the running loop, and return what it says to that."""

    async def begin():
        made = use(client)
        return await made if inspect.isawaitable(made) else made

    with pytest.raises(ClientError) as caught:
        await begin()
    return str(caught.value)


@pytest.fixture
def first_loop():
    """A loop in a thread of its own, as `python -X dev` makes them: it refuses calls from other threads."""
    thread = LoopThread("first loop")
    thread.apply(lambda: asyncio.get_running_loop().set_debug(True))
    yield thread
    thread.stop()


@pytest.mark.parametrize("make", USES)
def test_a_client_is_refused_to_other_loops_and_goes_on_on_its_own(first_loop, make):
    cluster = FakeCluster()
    first_loop.call(cluster.__aenter__())
    cluster.topic("orders", count=1)
    client = first_loop.apply(make, "g", cluster.name_servers)
    if make is PushConsumer:
        first_loop.apply(client.subscribe, "orders")
    first_loop.call(client.open())
    for use_client in USES[make]:
        said = asyncio.run(refused(use_client, client), debug=True)
        assert said.startswith("this client belongs to another event loop: ")
    if make is Producer:
        assert first_loop.call(client.send(Message("orders", b"1"))).queue_offset == 0
    first_loop.call(client.close())
    first_loop.call(cluster.__aexit__())


def test_a_client_whose_loop_has_ended_says_so(first_loop):
    client = Producer("g", "127.0.0.1:1")
    asyncio.run(client.open())
    said = first_loop.call(refused(lambda client: client.queues("orders"), client))
    assert said.startswith("this client belongs to another event loop, which is closed: ")


def test_an_admin_client_belongs_to_the_loop_of_its_first_question_until_it_is_closed(first_loop):
    client = AdminClient("127.0.0.1:1", timeout_ms=100)

    async def ask(admin):
        with pytest.raises(NoNameServer):
            await admin.topic_list()

    first_loop.call(ask(client))
    said = asyncio.run(refused(lambda client: client.topic_list(), client))
    assert said.startswith("this AdminClient belongs to another event loop: ")
    first_loop.call(client.close())
    first_loop.call(ask(client))
    first_loop.call(client.close())
