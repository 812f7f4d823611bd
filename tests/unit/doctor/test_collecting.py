"""A snapshot of servers that answer anything: one bad answer hides none of the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import orjson
import pytest

from orbitmq.codes import ResponseCode
from orbitmq.doctor import Snapshot, examine, take_snapshot
from orbitmq.doctor.collecting import AT_A_TIME
from orbitmq.model.group import ConsumerInfo
from orbitmq.model.route import BrokerData, ClusterInfo, MessageQueue
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.monitoring.alerts import BROKER_COUNT_DROPPED
from orbitmq.net.dispatch.handlers import LATER, Handlers, Reply
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server import Server
from orbitmq.wire.bodies.document import encode_kv_table
from orbitmq.wire.bodies.groups import (
    ClientConnection,
    GroupConfig,
    GroupTable,
    encode_consumer_connections,
    encode_group_table,
)
from orbitmq.wire.bodies.route import encode_cluster_info
from orbitmq.wire.bodies.topics import QueueStats, TopicTable, encode_topic_list, encode_topic_stats, encode_topic_table
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetAllSubscriptionGroups,
    GetAllTopicConfig,
    GetAllTopics,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    GetClusterInfo,
    GetConsumerConnections,
    GetHealth,
    GetRunningInfo,
    GetTopicStats,
    QueryConsumeTimeSpan,
)

pytestmark = pytest.mark.real

SILENT = None
NOT_ONLINE = Reply(ResponseCode.CONSUMER_NOT_ONLINE)
HEALTH = {"healthy": True, "uptimeMs": 1, "alerts": [], "warnings": []}
WELL: dict[type, Reply | bytes] = {
    GetBrokerRuntimeInfo: encode_kv_table({"brokerVersionDesc": "V5_3_3"}),
    GetBrokerConfig: b"fileReservedTime=72\n",
    GetHealth: orjson.dumps(HEALTH),
    GetAllConsumerOffsets: b'{"offsetTable":{}}',
    GetAllTopicConfig: encode_topic_table(TopicTable(DataVersion(), {})),
    GetAllSubscriptionGroups: encode_group_table(
        GroupTable(DataVersion(), {"billing": GroupConfig(group="billing")}, {})
    ),
    GetConsumerConnections: NOT_ONLINE,
}
"""What a broker of ours answers, in which a group is that reads nothing."""

handlers: Handlers[StandIn] = Handlers()


class StandIn:
    """A server with fixed answers, by the type of the request."""

    def __init__(self, answers: dict[type, Any]) -> None:
        self.answers = answers
        self.asked: list[type] = []


def _answer(server: StandIn, call: Any) -> Any:
    kind = type(call.header)
    server.asked.append(kind)
    answer = server.answers.get(kind, Reply(ResponseCode.SYSTEM_ERROR))
    if answer is SILENT:
        return LATER
    return answer if isinstance(answer, Reply) else Reply(body=answer)


for _kind in (*WELL, GetClusterInfo, GetAllTopics, GetTopicStats, QueryConsumeTimeSpan, GetRunningInfo):
    handlers.on(_kind)(_answer)


@asynccontextmanager
async def looked(
    *changes: dict[type, Any], timeout_ms: int = 3_000, alerts: Sequence[dict[str, Any]] = ()
) -> AsyncIterator[tuple[Snapshot, list[StandIn]]]:
    """Yield the snapshot of a cluster of one broker for each of the changes: a, b, ...; and the brokers.

    Args:
        alerts: of the NameServer.
    """
    brokers = [StandIn(WELL | change) for change in changes]
    async with AsyncExitStack() as stack:

        async def listen(server: StandIn) -> str:
            listener = Server(handlers, server, name="stand-in")
            stack.push_async_callback(listener.close)
            return f"127.0.0.1:{await listener.start('127.0.0.1', 0)}"

        found = {
            name: BrokerData(cluster="c", broker_name=name, addresses={0: await listen(server)})
            for name, server in zip("abc", brokers, strict=False)
        }
        info = encode_cluster_info(ClusterInfo(brokers=found, clusters={"c": tuple(found)}))
        name_server: dict[type, Any] = {
            GetClusterInfo: info,
            GetAllTopics: encode_topic_list([]),
            GetHealth: orjson.dumps(HEALTH | {"alerts": list(alerts)}),
        }
        address = await listen(StandIn(name_server))
        pool = ConnectionPool()
        stack.push_async_callback(pool.close)
        yield await take_snapshot([address], pool, timeout_ms=timeout_ms), brokers


async def test_brokers_that_are_well_refuse_nothing() -> None:
    async with looked({}, {}) as (snapshot, _):
        assert [broker.name for broker in snapshot.brokers] == ["a", "b"]
        assert all(broker.problem is None and not broker.refusals for broker in snapshot.brokers)
        assert set(snapshot.groups) == {"billing"}


@pytest.mark.parametrize("body", [b"name=\xff", rb"name=\uzzzz"])
async def test_settings_that_are_no_properties_hide_no_other_broker(body: bytes) -> None:
    async with looked({GetBrokerConfig: body}, {}) as (snapshot, _):
        bad, well = snapshot.brokers
        assert list(bad.refusals) == ["settings"]
        assert well.settings == {"fileReservedTime": "72"}


async def test_a_client_whose_expression_is_no_text_says_nothing() -> None:
    online = encode_consumer_connections(
        [ClientConnection(client_id="one", address="1.2.3.4:5", language="JAVA", version=475)],
        ConsumerInfo(group="billing"),
    )
    told = b'{"subscriptionSet":[{"topic":"orders","subString":7}]}'
    async with looked({GetConsumerConnections: online, GetRunningInfo: told}) as (snapshot, _):
        assert len(snapshot.groups["billing"].status.clients) == 1
        assert snapshot.groups["billing"].clients == {}
        examine(snapshot)


async def test_a_broker_that_takes_connections_and_says_nothing_is_unreachable_and_asked_once() -> None:
    async with looked(dict.fromkeys(WELL, SILENT), {}, timeout_ms=100) as (snapshot, (silent, _)):
        assert silent.asked == [GetBrokerRuntimeInfo]
        (issue,) = [issue for issue in examine(snapshot) if issue.severity == "error"]
        assert (issue.check, issue.subject) == ("broker-unreachable", "broker a")
        assert snapshot.brokers[1].problem is None
        assert snapshot.silent == ["a"]


async def test_a_lost_master_is_missing_from_lags_until_it_is_back() -> None:
    lost = {"rule": BROKER_COUNT_DROPPED, "reason": "", "subjects": ["c/a:0", "c/b:0", "c/b:1"]}
    async with looked({}, alerts=[lost]) as (snapshot, _):
        assert snapshot.silent == ["b"]


async def test_a_broker_that_falls_silent_is_not_asked_for_every_group() -> None:
    names = [f"group-{number}" for number in range(3 * AT_A_TIME)]
    groups = GroupTable(DataVersion(), {name: GroupConfig(group=name) for name in names}, {})
    changes = {GetAllSubscriptionGroups: encode_group_table(groups), GetConsumerConnections: SILENT}
    async with looked(changes, timeout_ms=200) as (snapshot, (broker,)):
        assert broker.asked.count(GetConsumerConnections) < 2 * AT_A_TIME
        assert any("has fallen silent" in text for text in snapshot.left_out)
        assert snapshot.silent == ["a"]


async def test_members_that_a_broker_does_not_tell_are_not_taken_for_gone() -> None:
    queue = {MessageQueue("orders", "a", 0): QueueStats(0, 9, 1)}
    changes = {
        GetConsumerConnections: Reply(ResponseCode.NO_PERMISSION, remark="not allowed"),
        GetAllTopicConfig: encode_topic_table(TopicTable(DataVersion(), {"orders": TopicConfig(topic="orders")})),
        GetTopicStats: encode_topic_stats(queue),
        GetAllConsumerOffsets: b'{"offsetTable":{"orders@billing":{0:1}}}',
    }
    async with looked(changes) as (snapshot, _):
        assert snapshot.lag("billing") == 8
        issues = examine(snapshot)
        assert "group-gone" not in {issue.check for issue in issues}
        (note,) = [issue.text for issue in issues if issue.check == "not-told"]
        assert note.startswith("the members of 1 groups were not told, as of billing: ")
        assert note.endswith("not allowed; checks that need them say nothing")
