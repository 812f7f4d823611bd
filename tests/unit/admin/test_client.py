"""The administrator's client, against a stand-in that plays NameServer and broker on one port."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from cases import each_case
from orbitmq import Message, Producer
from orbitmq.admin import AdminClient
from orbitmq.codes import ResponseCode
from orbitmq.errors import (
    InvalidArgument,
    NoNameServer,
    PartlyDone,
    Rejected,
    RemoteRefused,
    RouteNotFound,
)
from orbitmq.model.route import BrokerData, ClusterInfo, MessageQueue, QueueData, TopicRoute
from orbitmq.model.topic import TopicConfig
from orbitmq.net.dispatch.handlers import LATER, Handlers, Reply
from orbitmq.net.loop import run
from orbitmq.net.server import Server
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.document import encode_kv_table
from orbitmq.wire.bodies.route import encode_cluster_info, encode_route
from orbitmq.wire.bodies.topics import QueueStats, encode_topic_list, encode_topic_stats
from orbitmq.wire.headers import (
    CreateTopic,
    DeleteTopicInBroker,
    DeleteTopicInNameServer,
    GetAllTopics,
    GetBrokerRuntimeInfo,
    GetClusterInfo,
    GetMaxOffset,
    GetMinOffset,
    GetRouteInfo,
    GetTopicsByCluster,
    GetTopicStats,
    OffsetResponse,
)
from waiting import until

pytestmark = pytest.mark.real

handlers: Handlers["StandIn"] = Handlers()
NO_SERVER = "127.0.0.1:1"


class StandIn:
    """Knows one topic, `orders`, with two queues on broker-a; notes what it was told."""

    def __init__(self, *, has_stats=True, refusal=None, forgets=True, slaves=(), answers_late=False):
        self.address = ""
        self.told = []
        self.has_stats = has_stats
        self.refusal = refusal
        self.forgets = forgets
        self.slaves = slaves
        self.answers_late = answers_late

    @property
    def broker(self):
        return BrokerData(
            cluster="east", broker_name="broker-a", addresses={0: self.address, **dict(enumerate(self.slaves, 1))}
        )

    def note(self, header):
        if self.refusal is not None:
            raise self.refusal
        self.told.append(header)
        return Reply()


@handlers.on(GetClusterInfo)
def _cluster(service, call):
    lone = BrokerData(cluster="west", broker_name="slave-only", addresses={1: NO_SERVER})
    info = ClusterInfo(
        brokers={"broker-a": service.broker, "slave-only": lone},
        clusters={"east": ("broker-a",), "west": ("slave-only",)},
    )
    return Reply(body=encode_cluster_info(info))


@handlers.on(GetAllTopics)
def _topics(service, call):
    return Reply(body=encode_topic_list(["orders", "bills"]))


@handlers.on(GetTopicsByCluster)
def _cluster_topics(service, call):
    return Reply(body=encode_topic_list([call.header.cluster]))


@handlers.on(GetRouteInfo)
def _route(service, call):
    if call.header.topic != "orders":
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, "no such topic")
    queues = (QueueData(broker_name="broker-a", read_queue_count=2, write_queue_count=2, perm=6),)
    return Reply(body=encode_route(TopicRoute(queues=queues, brokers=(service.broker,))))


@handlers.on(GetTopicStats)
def _stats(service, call):
    if not service.has_stats:
        raise Rejected(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported")
    return Reply(body=encode_topic_stats({MessageQueue("orders", "broker-a", 1): QueueStats(3, 5, 99)}))


@handlers.on(GetMinOffset, GetMaxOffset)
def _offset(service, call):
    return Reply(header=OffsetResponse(offset=call.header.queue_id + 10 * isinstance(call.header, GetMaxOffset)))


@handlers.on(CreateTopic, DeleteTopicInBroker)
def _change(service, call):
    if service.answers_late:
        asyncio.get_running_loop().call_later(0.05, lambda: call.answer(service.note(call.header)))
        return LATER
    return service.note(call.header)


@handlers.on(DeleteTopicInNameServer)
def _forget(service, call):
    if service.forgets is not True:
        raise Rejected(service.forgets or ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "it does not forget")
    return service.note(call.header)


@handlers.on(GetBrokerRuntimeInfo)
def _runtime(service, call):
    return Reply(body=encode_kv_table({"putTps": "1.0"}))


@asynccontextmanager
async def playing(service):
    server = Server(handlers, service, name="stand-in")
    service.address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    try:
        async with AdminClient(service.address) as admin:
            yield admin
    finally:
        await server.close()


def ask(question, **traits):
    """Ask one thing of a fresh stand-in; return the answer and the stand-in."""
    service = StandIn(**traits)

    async def work():
        async with playing(service) as admin:
            return await question(admin)

    return run(work()), service


def test_topics_come_sorted():
    assert ask(lambda admin: admin.topic_list())[0] == ("bills", "orders")


def test_topics_of_one_cluster_are_asked_for_by_its_name():
    assert ask(lambda admin: admin.topic_list("east"))[0] == ("east",)


def test_a_topic_is_created_on_every_master_and_on_no_other_broker():
    config = TopicConfig(topic="new", read_queue_count=3, write_queue_count=4, attributes={"+a": "b"})
    changed, service = ask(lambda admin: admin.create_topic(config))
    assert changed == {"broker-a": service.address}
    (told,) = service.told
    assert (told.topic, told.read_queue_nums, told.write_queue_nums, told.perm) == ("new", 3, 4, 6)
    assert told.attributes == "+a=b"


@each_case({"cluster": "north"}, {"broker": "broker-z"})
def test_an_unknown_place_for_a_topic_is_named_with_those_that_exist(where):
    with pytest.raises(InvalidArgument, match=r"expected one of (east, west|broker-a, slave-only)"):
        ask(lambda admin: admin.create_topic(TopicConfig(topic="new"), **where))


def test_a_cluster_without_a_master_takes_no_topic():
    with pytest.raises(RouteNotFound, match="no master"):
        ask(lambda admin: admin.create_topic(TopicConfig(topic="new"), cluster="west"))


def test_a_name_outside_the_alphabet_is_refused_before_a_server_is_asked():
    with pytest.raises(InvalidArgument, match="topic"):
        ask(lambda admin: admin.create_topic(TopicConfig(topic="a b")))


def test_a_brokers_refusal_reaches_the_caller():
    with pytest.raises(RemoteRefused, match="broker is read-only"):
        ask(lambda admin: admin.create_topic(TopicConfig(topic="new")), refusal=Rejected(16, "broker is read-only"))


def test_a_topic_is_deleted_from_brokers_first_and_name_servers_last():
    addresses, service = ask(lambda admin: admin.delete_topic("orders"))
    assert addresses == [service.address]
    assert service.told == [DeleteTopicInBroker(topic="orders"), DeleteTopicInNameServer(topic="orders")]


def test_a_name_server_that_cannot_forget_a_topic_does_not_fail_the_deletion():
    _, service = ask(lambda admin: admin.delete_topic("orders"), forgets=False)
    assert service.told == [DeleteTopicInBroker(topic="orders")]


def test_a_name_server_that_refuses_to_forget_a_topic_fails_the_deletion_which_brokers_have_made():
    with pytest.raises(PartlyDone, match=r"^done on \S+; not done on \S+: .*it does not forget") as caught:
        ask(lambda admin: admin.delete_topic("orders"), forgets=ResponseCode.NO_PERMISSION)
    assert len(caught.value.done) == 1


async def test_a_name_server_that_is_down_fails_the_deletion_but_the_others_forget():
    service = StandIn()

    async with playing(service), AdminClient([NO_SERVER, service.address]) as admin:
        with pytest.raises(PartlyDone, match="not done on"):
            await admin.delete_topic("orders")
    assert service.told[-1] == DeleteTopicInNameServer(topic="orders")


def test_a_broker_that_is_down_is_told_of_when_the_others_have_answered():
    service = StandIn(slaves=[NO_SERVER], answers_late=True)

    async def work():
        async with playing(service) as admin:
            with pytest.raises(PartlyDone, match=f"not done on {NO_SERVER}"):
                await admin.delete_topic("orders")
            return list(service.told)

    assert run(work()) == [DeleteTopicInBroker(topic="orders")]


def test_deleting_what_is_not_there_says_so():
    with pytest.raises(RouteNotFound, match="cluster west"):
        ask(lambda admin: admin.delete_topic("orders", cluster="west"))
    with pytest.raises(RouteNotFound, match="bills"):
        ask(lambda admin: admin.delete_topic("bills"))


def test_offsets_come_in_one_answer_where_the_broker_has_it():
    stats, _ = ask(lambda admin: admin.topic_stats("orders"))
    assert stats == {MessageQueue("orders", "broker-a", 1): QueueStats(3, 5, 99)}


def test_offsets_come_queue_by_queue_from_a_broker_that_has_no_summary():
    stats, _ = ask(lambda admin: admin.topic_stats("orders"), has_stats=False)
    assert stats == {MessageQueue("orders", "broker-a", i): QueueStats(i, 10 + i) for i in (0, 1)}


def test_a_broker_says_what_it_does():
    async def question(admin):
        (address,) = (await admin.cluster_info()).brokers["broker-a"].addresses.values()
        return await admin.broker_runtime_info(address)

    assert ask(question)[0] == {"putTps": "1.0"}


def test_the_next_name_server_is_asked_when_one_is_down():
    service = StandIn()

    async def work():
        async with playing(service), AdminClient([NO_SERVER, service.address]) as admin:
            return [await admin.topic_list() for _ in range(3)]

    assert run(work()) == [("bills", "orders")] * 3


def test_a_silent_cluster_names_all_that_were_asked():
    async def work():
        async with AdminClient([NO_SERVER, "127.0.0.1:2"]) as admin:
            await admin.cluster_info()

    with pytest.raises(NoNameServer) as failure:
        asyncio.run(work())
    assert NO_SERVER in str(failure.value)
    assert "127.0.0.1:2" in str(failure.value)


async def test_a_message_is_found_by_its_id_and_by_its_key():
    async with LocalCluster() as cluster, AdminClient(cluster.name_servers, timeout_ms=30_000) as admin:
        async with Producer("p", cluster.name_servers) as producer:
            sent = await producer.send(Message("orders", b"x", keys=["k"]))
        found = await admin.message_by_id("orders", sent.message_id)
        assert found is not None
        assert found.body == b"x"
        assert [message.body for message in (await admin.messages_by_key("orders", "k")).messages] == [b"x"]


async def test_a_brokers_settings_are_shown_and_changed_and_its_figures_are_told():
    async with LocalCluster() as cluster, AdminClient(cluster.name_servers, timeout_ms=30_000) as admin:
        (address,) = cluster.brokers.values()
        await admin.change_broker_settings(address, {"maxMessageSize": "10", "fileReservedTime": "5"})
        settings = await admin.broker_settings(address)
        assert (settings["maxMessageSize"], settings["fileReservedTime"]) == ("10", "5")
        with pytest.raises(RemoteRefused, match="storePathRootDir cannot be changed"):
            await admin.change_broker_settings(address, {"storePathRootDir": "/tmp"})
        with pytest.raises(InvalidArgument):
            await admin.change_broker_settings(address, {"maxMessageSize": "10\nlistenPort=1"})
        with pytest.raises(RemoteRefused, match="not exist"):
            await admin.broker_stats(address, "TOPIC_PUT_NUMS", "none")
        async with Producer("p", cluster.name_servers) as producer:
            await producer.send(Message("counted", b"x"))
        figures = await admin.broker_stats(address, "TOPIC_PUT_NUMS", "counted")
        assert figures.minute.sum in (0, 1)  # a step of ten seconds may have ended, or not


async def test_a_lost_broker_is_missing_from_answers_until_it_is_back():
    async with LocalCluster(brokers=2, processes=True) as cluster, AdminClient(cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders"))
        assert await admin.missing_masters_of("orders") == {}
        await cluster.kill_broker("broker-b")
        missing = await until(admin.missing_masters)
        assert missing["broker-b"].startswith("it is gone without a good-bye (connection closed, 2")
        assert (await admin.known_topic_stats("orders"))[1] == missing
        assert (await admin.groups_that_answer())[1] == missing
        with pytest.raises(InvalidArgument) as refused:
            await admin.masters(broker="broker-b")
        assert refused.value.__notes__ == [f"broker-b: {missing['broker-b']}"]
        with pytest.raises(RouteNotFound) as unknown:
            await admin.topic_route("only-on-b")
        assert unknown.value.__notes__ == refused.value.__notes__
        await cluster.restart_broker("broker-b")
        assert await admin.missing_masters() == {}
