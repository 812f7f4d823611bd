"""The administrator's client: what a cluster consists of, and how it is changed.

Queries about routes go to the NameServers in turn until one answers; changes go to every broker that they concern, and
to every NameServer where each one keeps a copy of its own.

    async with AdminClient("127.0.0.1:9876") as admin:
        await admin.create_topic(TopicConfig(topic="orders", read_queue_count=8, write_queue_count=8))
        print(await admin.topic_list())
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import orjson

from orbitmq.address import parse_name_servers
from orbitmq.admin.cluster_admin import ClusterAdmin
from orbitmq.admin.each_master import ask_all, ask_each, change_each
from orbitmq.admin.group_client import GroupAdmin, delete_topics
from orbitmq.admin.groups import GroupStatus, QueueLag, QueueReset, ResetTo
from orbitmq.admin.messages import COUNT_MAX, FoundMessages, find_by_id, find_by_key, find_lost
from orbitmq.admin.one_broker import BrokerAdmin
from orbitmq.admin.stats import Traffic, find_known_traffic, find_traffic
from orbitmq.admin.topics import (
    TopicChange,
    change_configs,
    check_read_queues,
    create_header,
    find_configs,
    find_known_configs,
    hidden_messages,
)
from orbitmq.client.routing.routes import Routes
from orbitmq.client.session.arguments import each, instance, text, texts
from orbitmq.client.session.validation import INTERVAL_MS, checked
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, OrbitError, PartlyDone, RemoteRefused, RouteNotFound
from orbitmq.masking import masked_settings
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MASTER_ID, MessageQueue, TopicRoute
from orbitmq.model.topic import TopicConfig, check_name
from orbitmq.net.pool import expect
from orbitmq.wire.bodies.consumer_info import DirectResult, RunningInfo, decode_direct_result, decode_running_info
from orbitmq.wire.bodies.groups import GroupConfig, ProducerInfo, decode_producer_table
from orbitmq.wire.bodies.offsets import QueueTimeSpan
from orbitmq.wire.bodies.stats import BrokerStatsData, decode_stats
from orbitmq.wire.bodies.topics import QueueStats, decode_topic_list, decode_topic_stats
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers.admin import (
    ConsumeMessageDirectly,
    GetBrokerConfig,
    GetRunningInfo,
    UpdateBrokerConfig,
    ViewBrokerStats,
)
from orbitmq.wire.headers.groups import GetAllProducers
from orbitmq.wire.headers.nameserver import (
    DeleteTopicInNameServer,
    GetAllTopics,
    GetClusterInfo,
    GetRouteHistory,
    GetTopicsByCluster,
)
from orbitmq.wire.headers.offsets import GetMaxOffset, GetMinOffset, OffsetResponse
from orbitmq.wire.headers.topics import DeleteTopicInBroker, GetTopicStats
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.signature import Credentials

_PROBE_S = 2
_NOT_SUPPORTED = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@checked(
    init={"timeout_ms": INTERVAL_MS},
    reset_group={"to": instance(ResetTo, allowed="a ResetTo, such as ResetTo.earliest()")},
    create_group={"config": instance(GroupConfig, allowed="a GroupConfig")},
    groups={"names": each(text, "a list of texts")},
    consume_directly={"message": instance(StoredMessage, allowed="a StoredMessage, such as message_by_id returns")},
    change_broker_settings={"changes": texts},
    change_topic={"change": instance(TopicChange, allowed="a TopicChange, such as TopicChange(perm=4)")},
)
class AdminClient(ClusterAdmin):
    """Typed administrative calls to one cluster.

    Args:
        name_servers: `"host:port;host:port"` or a list of addresses.
        timeout_ms: for each request.
        credentials: sign every request, for NameServers that ask for it.
        tls: connect with TLS, as `orbitmq.net.security.tls.client_context` makes it.
    """

    def __init__(
        self,
        name_servers: str | Iterable[str],
        *,
        timeout_ms: int = 3000,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(name_servers, timeout_ms=timeout_ms, credentials=credentials, tls=tls)
        self._routes = Routes(self._name_servers)
        self._groups = GroupAdmin(self._request, self._find_masters, self._find_topic_masters)

    async def close(self) -> None:
        """Close every connection."""
        await self._routes.close()
        await super().close()

    async def topic_list(self, cluster: str | None = None) -> tuple[str, ...]:
        """Return the names of all topics, or of one cluster's, sorted."""
        header = GetAllTopics() if cluster is None else GetTopicsByCluster(cluster=cluster)
        return tuple(sorted(decode_topic_list((await self._ask(header)).body).topics))

    async def topic_route(self, topic: str) -> TopicRoute:
        """Return where a topic's queues are now.

        Raises:
            RouteNotFound: the NameServer knows no route.
        """
        try:
            await self._routes.refresh(check_name("topic", topic))
            return await self._routes.find(topic)
        except RouteNotFound as error:  # a broker that is lost had it, perhaps
            for name, why in (await self.missing_masters()).items():
                if (note := f"{name}: {why}") not in getattr(error, "__notes__", ()):  # callers share an answer
                    error.add_note(note)
            raise

    async def create_topic(
        self, config: TopicConfig, *, cluster: str | None = None, broker: str | None = None, force: bool = False
    ) -> Mapping[str, str]:
        """Create a topic, or change it, on every master, on one cluster's, or on one broker name's.

        Args:
            force: take read queues away from a topic though they hold messages, which no consumer finds then.

        Returns:
            Broker name to the address that took the change.

        Raises:
            InvalidArgument: no master is called so, or messages would be hidden.
            PartlyDone: some masters have made the change, some have not.
        """
        check_name("topic", config.topic)
        targets = await self.masters(cluster=cluster, broker=broker)
        if not force:
            await check_read_queues(self._request, targets, config.topic, config.read_queue_count)
        header = create_header(config)
        await change_each(targets, lambda _name, address: self._request(address, header))
        return targets

    async def topic_configs(
        self, topic: str, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[str, TopicConfig]:
        """Return a topic's settings by the names of the masters that have it.

        Raises:
            InvalidArgument: no master is called so.
            RouteNotFound: none of the masters has the topic.
        """
        return await find_configs(self._request, await self.masters(cluster=cluster, broker=broker), topic)

    async def known_topic_configs(
        self, topic: str, *, cluster: str | None = None, broker: str | None = None
    ) -> tuple[dict[str, TopicConfig], dict[str, str]]:
        """Return a topic's settings on the masters that answer, and what is wrong with each other one.

        Raises:
            InvalidArgument: no master is called so.
            RouteNotFound: all masters answer, and none of them has the topic.
            ClientError: no master answers.
        """
        return await find_known_configs(self._request, await self.masters(cluster=cluster, broker=broker), topic)

    async def change_topic(
        self,
        topic: str,
        change: TopicChange,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        force: bool = False,
    ) -> dict[str, TopicConfig]:
        """Change a topic on every master that has it; return its settings afterwards, as each of them tells them.

        Args:
            force: take read queues away though they hold messages, which no consumer finds then.

        Raises:
            InvalidArgument: no master is called so, or messages would be hidden.
            RouteNotFound: none of the masters has the topic.
            PartlyDone: some masters have made the change, some have not.
        """
        masters = await self.masters(cluster=cluster, broker=broker)
        return await change_configs(self._request, masters, topic, change, force=force)

    async def hidden_messages(self, topic: str, read_queue_count: int, masters: Mapping[str, str]) -> dict[str, int]:
        """Return by broker how many messages of a topic no consumer would find with so many queues to read.

        Args:
            masters: address by name of the brokers that are asked.
        """
        return await hidden_messages(self._request, masters, topic, read_queue_count)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> Sequence[str]:
        """Delete a topic from every broker that holds it, then from every NameServer.

        Returns:
            The brokers' addresses.

        Raises:
            RouteNotFound: no NameServer knows the topic.
            PartlyDone: some servers have deleted it, some have not.
        """
        route = await self.topic_route(topic)
        brokers = [data for data in route.brokers if cluster in (None, data.cluster)]
        if not brokers:
            raise RouteNotFound(f"the topic {topic} has no route in the cluster {cluster}")
        addresses = [address for data in brokers for address in data.addresses.values()]
        delete = DeleteTopicInBroker(topic=topic)
        await change_each(_themselves(addresses), lambda _name, address: self._request(address, delete))
        answers = await self._name_servers.ask_all(DeleteTopicInNameServer(topic=topic, cluster_name=cluster))

        async def check(_name: str, address: str) -> None:
            answer = answers[address]
            if isinstance(answer, ClientError):
                raise answer
            if answer.code != _NOT_SUPPORTED:
                expect(answer, address)

        await change_each(_themselves(answers), check, done=addresses)
        return addresses

    async def broker(self, address: str) -> BrokerAdmin:
        """Return questions to one broker; it is asked nothing yet.

        Args:
            address: of a master or a slave, as host:port.
        """
        return BrokerAdmin(self._request, address)

    async def broker_settings(self, address: str, *, with_secrets: bool = False) -> dict[str, str]:
        """Return a broker's settings, under RocketMQ's keys; a Java broker's, too.

        Args:
            with_secrets: Java's brokers show theirs; without this they are masked.
        """
        import javaproperties  # it loads an XML parser: only requests for settings pay

        body = (await self._request(address, GetBrokerConfig())).body
        settings = dict(javaproperties.loads(body.decode()))
        return settings if with_secrets else masked_settings(settings)

    async def change_broker_settings(self, address: str, changes: Mapping[str, str]) -> str:
        """Change settings of a running broker, under RocketMQ's keys.

        Returns:
            What a broker of ours says of those that do not take effect immediately; nothing where all do.

        Raises:
            InvalidArgument: a key or a value has more than one line.
            RemoteRefused: the broker refused; one of ours has changed none then.
        """
        for part in (*changes, *changes.values()):
            if not part.isprintable():
                raise InvalidArgument("changes", part, "keys and values of one line")
        body = "".join(f"{key}={value}\n" for key, value in changes.items()).encode()
        return (await self._request(address, UpdateBrokerConfig(), body)).remark or ""

    async def check_name_servers(self, name_servers: str) -> None:
        """Refuse a list for brokers (`namesrvAddr`) of which no NameServer answers: a broker that has it would be found no more.

        Raises:
            InvalidArgument: none answers within two seconds, or one is not a host:port.
        """

        async def answers(address: str) -> bool:
            try:
                async with asyncio.timeout(_PROBE_S):
                    await self._request(address, GetClusterInfo())
            except (OrbitError, TimeoutError):
                return False
            return True

        if not any(await asyncio.gather(*map(answers, parse_name_servers(name_servers)))):
            raise InvalidArgument("namesrvAddr", name_servers, "a list of which at least one NameServer answers")

    async def broker_stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        """Return what a broker has counted in the last minute, hour and day.

        Args:
            name: one of Java's, as `TOPIC_PUT_NUMS` or `GROUP_GET_NUMS`.
            key: a topic, or `topic@group`.

        Raises:
            RemoteRefused: nothing was counted under this name and key.
        """
        return decode_stats((await self._request(address, ViewBrokerStats(stats_name=name, stats_key=key))).body)

    async def traffic(
        self,
        topic: str | None = None,
        group: str | None = None,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[Traffic]:
        """Return how many messages came to each topic, and how many each group got, in the last minute, hour and day.

        Args:
            topic: only of this topic; without it a broker is asked several times for each of its topics.
            group: only what this group got.
        """
        return await find_traffic(self._request, await self.masters(cluster=cluster, broker=broker), topic, group)

    async def known_traffic(
        self,
        topic: str | None = None,
        group: str | None = None,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> tuple[list[Traffic], dict[str, str]]:
        """Return what `traffic` does, of the masters that answer, and what is wrong with each other one.

        Raises:
            ClientError: no master answers.
        """
        return await find_known_traffic(self._request, await self.masters(cluster=cluster, broker=broker), topic, group)

    async def topic_stats(self, topic: str) -> dict[MessageQueue, QueueStats]:
        """Return where each queue of a topic begins and ends, in queue order.

        Raises:
            RouteNotFound: the NameServer knows no route.
        """

        async def ask(broker_name: str, address: str) -> dict[MessageQueue, QueueStats]:
            return await self._broker_topic_stats(broker_name, address, topic)

        answers = await ask_all(await self._find_topic_masters(topic), ask)
        return dict(sorted(item for stats in answers.values() for item in stats.items()))

    async def known_topic_stats(
        self, topic: str, *, silent: Mapping[str, str] | None = None
    ) -> tuple[dict[MessageQueue, QueueStats], dict[str, str]]:
        """Return where a topic's queues begin and end on the brokers that answer, and what is wrong with each other one.

        Args:
            silent: brokers that are not asked, as `silent_masters` returns them: for questions about many topics. When left out,
                brokers of the topic that have no master now are among the problems, too.

        Raises:
            RouteNotFound: the NameServer knows no route.
            ClientError: no broker of the topic answers.
        """

        async def ask(broker_name: str, address: str) -> dict[MessageQueue, QueueStats]:
            if silent and broker_name in silent:
                raise ClientError(silent[broker_name])
            return await self._broker_topic_stats(broker_name, address, topic)

        answers, problems = await ask_each(await self._find_topic_masters(topic), ask, needs_one=True)
        if silent is None:
            problems |= await self.missing_masters_of(topic)
        return dict(sorted(item for stats in answers.values() for item in stats.items())), problems

    async def silent_masters(self) -> dict[str, str]:
        """Return the names of the masters that do not answer now, or are missing, and what is wrong with each, sorted.

        Raises:
            ClientError: no master answers.
        """

        async def ask(_broker_name: str, address: str) -> None:
            with suppress(RemoteRefused):  # one that refuses answers
                await self.broker_runtime_info(address)

        _, problems = await ask_each(await self.masters(), ask, needs_one=True)
        return dict(sorted((problems | await self.missing_masters()).items()))

    async def missing_masters_of(self, topic: str) -> dict[str, str]:
        """Return those of the `missing_masters` that have, or had, queues of a topic."""
        missing = await self.missing_masters()
        if not missing:
            return {}
        holders = {queue.broker_name for queue in (await self._routes.find(topic)).queues}
        holders |= (await self.lost_brokers(topic)).keys()
        return {name: why for name, why in missing.items() if name in holders}

    async def groups_that_answer(self) -> tuple[GroupAdmin, dict[str, str]]:
        """Return calls about groups to the masters that answer now, and what is wrong with each other one.

        Raises:
            ClientError: no master answers.
        """
        problems = await self.silent_masters()

        def answering(masters: Mapping[str, str]) -> Mapping[str, str]:
            return {name: address for name, address in masters.items() if name not in problems}

        async def find_masters(cluster: str | None) -> Mapping[str, str]:
            return answering(await self._find_masters(cluster))

        async def find_topic_masters(topic: str) -> Mapping[str, str]:
            return answering(await self._find_topic_masters(topic))

        return GroupAdmin(self._request, find_masters, find_topic_masters), problems

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = COUNT_MAX,
        begin_ms: int = 0,
        end_ms: int | None = None,
        body_size_max: int | None = None,
    ) -> FoundMessages:
        """Return a key's newest messages that were stored between two times, and which brokers did not answer.

        Args:
            key: one of the message's keys, or its client's id.
            count_max: brokers are queried again and again until it is reached.
            body_size_max: bytes of each body that are kept, for tables; None: all.

        Raises:
            RouteNotFound: the NameServer knows no route.
            ClientError: no broker answers.
        """
        route = await self.topic_route(topic)
        lost = await self.lost_brokers(topic)
        return await find_by_key(
            route,
            self._request,
            topic,
            key,
            count_max=count_max,
            begin_ms=begin_ms,
            end_ms=end_ms,
            body_size_max=body_size_max,
            lost=lost,
        )

    async def message_by_id(
        self, topic: str, message_id: str, *, body_size_max: int | None = None
    ) -> StoredMessage | None:
        """Return a message by the id that its client gave it, or by its broker's; None when no broker has it.

        Args:
            body_size_max: bytes of its body that are kept; None: all.

        Raises:
            RouteNotFound: the NameServer knows no route.
            ClientError: a broker does not answer, and the others do not have it.
        """
        route = await self.topic_route(topic)
        lost = await self.lost_brokers(topic)
        return await find_by_id(route, self._request, topic, message_id, body_size_max=body_size_max, lost=lost)

    async def lost_brokers(self, topic: str) -> dict[str, str]:
        """Return brokers that had queues of a topic and left its route without a good-bye, and why, sorted.

        Only orbitmq NameServers tell, and only of what they remember.
        """
        route, missing = await self._routes.find(topic), await self.missing_masters()
        try:
            events = orjson.loads((await self._ask(GetRouteHistory(topic=topic))).body) if missing else ()
        except (ClientError, orjson.JSONDecodeError):
            return {}
        lost = find_lost(events, {broker.broker_name for broker in route.brokers})
        return {name: why for name, why in lost.items() if name in missing}

    async def group_names(self, cluster: str | None = None) -> list[str]:
        """Return the names of the consumer groups that users made, sorted: of thousands, quicker than `groups`."""
        return await self._groups.names(cluster)

    async def groups(self, cluster: str | None = None, *, names: Collection[str] | None = None) -> list[GroupStatus]:
        """Return every consumer group that a user made, or those of some names, sorted by name."""
        return await self._groups.groups(cluster, names)

    async def group_status(self, group: str) -> GroupStatus:
        """Return a group's settings and the clients that are online.

        Raises:
            ClientError: no broker knows it.
        """
        return await self._groups.status(group)

    async def group_lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, QueueLag]:
        """Return how far a group is in every queue of a topic, or of all that it reads, its retries included."""
        return await self._groups.lag(group, topic)

    async def group_has_committed(self, group: str, queue: MessageQueue) -> bool:
        """Return True if a group has an offset in a queue; its lag shows the offset 0 where it has none.

        Raises:
            ClientError: the queue's broker has no master, or does not answer.
        """
        return await self._groups.has_committed(group, queue)

    async def reset_group(
        self,
        group: str,
        topic: str,
        to: ResetTo,
        *,
        broker: str | None = None,
        queue_id: int | None = None,
        dry_run: bool = False,
    ) -> list[QueueReset]:
        """Set where a group goes on in a topic; its readers go on there with their next pull.

        Args:
            broker: only queues of the broker of this name.
            queue_id: only queues of this number.
            dry_run: change nothing, and return what would be changed.

        Returns:
            Each queue's offset before and after, with the messages that come again or are skipped.

        Raises:
            ClientError: clients of the group are online and cannot be told, or keep offsets of their own.
        """
        return await self._groups.reset(group, topic, to, broker=broker, queue_id=queue_id, dry_run=dry_run)

    async def clone_group(
        self, source: str, target: str, topic: str | None = None, *, dry_run: bool = False
    ) -> list[QueueReset]:
        """Let a group that is offline go on where another one is; it is made if it is not there.

        Args:
            dry_run: make and change nothing, and return what would be changed.

        Raises:
            ClientError: `source` has no offsets, or `target` has clients online.
        """
        return await self._groups.clone(source, target, topic, dry_run=dry_run)

    async def create_group(
        self, config: GroupConfig, *, cluster: str | None = None, broker: str | None = None
    ) -> Mapping[str, str]:
        """Create a group, or change its settings, on every master, on one cluster's, or on one broker name's.

        Returns:
            Broker name to the address that took the change.
        """
        return await self._groups.create(config, cluster=cluster, broker=broker)

    async def delete_group(self, group: str, *, cluster: str | None = None, with_topics: bool = False) -> Sequence[str]:
        """Delete a group's settings and offsets from every master.

        Args:
            with_topics: and the topics of its retries and its dead letters.

        Returns:
            The brokers' addresses.

        Raises:
            GroupNotFound: no broker has settings or offsets of it.
            ClientError: clients of it are online.
            PartlyDone: some brokers have deleted it, some have not, or it is deleted, and not all of its topics.
        """
        masters = await self._groups.delete(group, cluster=cluster)
        if with_topics:
            try:
                await delete_topics(self.delete_topic, group)
            except OrbitError as error:
                text = f"the group {group} is deleted on {', '.join(masters)}, not all of its topics: {error}"
                raise PartlyDone(text, list(masters)) from error
        return list(masters.values())

    async def topic_groups(self, topic: str, *, broker: str | None = None) -> list[str]:
        """Return the groups that have offsets in a topic, or subscribe to it, sorted.

        Args:
            broker: only those that the broker of this name knows.

        Raises:
            RouteNotFound: the NameServer knows no route.
        """
        return await self._groups.of_topic(topic, broker=broker)

    async def group_time_spans(self, group: str, topic: str) -> list[QueueTimeSpan]:
        """Return of each queue of a topic from when its messages are, and where a group stands in them.

        Raises:
            RouteNotFound: the NameServer knows no route.
        """
        return await self._groups.time_spans(group, topic)

    async def producers(self) -> dict[str, list[ProducerInfo]]:
        """Return the producers that are online at any master, by group."""
        return _merged_producers((await ask_all(await self.masters(), self._broker_producers)).values())

    async def known_producers(self) -> tuple[dict[str, list[ProducerInfo]], dict[str, str]]:
        """Return the producers that are online at the masters that answer, and what is wrong with each other one.

        Raises:
            ClientError: no master answers.
        """
        answers, problems = await ask_each(await self.masters(), self._broker_producers, needs_one=True)
        return _merged_producers(answers.values()), problems

    async def _broker_producers(self, _broker_name: str, address: str) -> Mapping[str, Iterable[ProducerInfo]]:
        return decode_producer_table((await self._request(address, GetAllProducers())).body)

    async def client_info(self, group: str, client_id: str, *, with_stacks: bool = False) -> RunningInfo:
        """Return what a group's client says of itself: settings, queues, figures, and the stacks of its threads.

        Raises:
            ClientError: no master knows the client, or it does not answer.
        """
        header = GetRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
        info = decode_running_info((await self._tell_first(header)).body)
        return replace(info, properties=masked_settings(info.properties))

    async def consume_directly(self, group: str, client_id: str, message: StoredMessage) -> DirectResult:
        """Let one client of a group consume one message now, whatever the group's offset is.

        Raises:
            ClientError: the message's broker does not know the client, or the message is gone.
        """
        header = ConsumeMessageDirectly(
            consumer_group=group,
            client_id=client_id,
            message_id=offset_message_id(message.store_host, message.physical_offset),
            topic=message.topic,
        )
        masters = await self.masters(broker=message.broker_name)
        return decode_direct_result((await self._request(masters[message.broker_name], header)).body)

    async def _tell_first(self, header: object) -> Command:
        """Return the answer of the first master that does not refuse.

        Raises:
            ClientError: all of them do; the last one's error.
        """
        error: ClientError = RouteNotFound("no master broker is registered with the NameServer")
        for address in (await self.masters()).values():
            try:
                return await self._request(address, header)
            except ClientError as refusal:
                error = refusal
        raise error

    async def _find_masters(self, cluster: str | None) -> Mapping[str, str]:
        return await self.masters(cluster=cluster)

    async def _find_topic_masters(self, topic: str) -> Mapping[str, str]:
        return _topic_masters(await self.topic_route(topic))

    async def _broker_topic_stats(self, broker_name: str, address: str, topic: str) -> dict[MessageQueue, QueueStats]:
        try:
            return decode_topic_stats((await self._request(address, GetTopicStats(topic=topic))).body)
        except RemoteRefused as refusal:
            if refusal.code != _NOT_SUPPORTED:
                raise
        # A broker that does not know GET_TOPIC_STATS_INFO still answers for each queue.
        route = await self.topic_route(topic)
        count = max(queue.read_queue_count for queue in route.queues if queue.broker_name == broker_name)
        queues = [MessageQueue(topic, broker_name, queue_id) for queue_id in range(count)]
        return {queue: await self._queue_stats(address, queue) for queue in queues}

    async def _queue_stats(self, address: str, queue: MessageQueue) -> QueueStats:
        low = await self._request(address, GetMinOffset(topic=queue.topic, queue_id=queue.queue_id))
        high = await self._request(address, GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))
        return QueueStats(
            decode_header(OffsetResponse, low.ext_fields).offset, decode_header(OffsetResponse, high.ext_fields).offset
        )


def _themselves(addresses: Iterable[str]) -> dict[str, str]:
    """Return servers that have no names by their addresses."""
    return {address: address for address in addresses}


def _merged_producers(answers: Iterable[Mapping[str, Iterable[ProducerInfo]]]) -> dict[str, list[ProducerInfo]]:
    """Return the producers of each group, each once."""
    found: dict[str, dict[str, ProducerInfo]] = {}
    for answer in answers:
        for group, infos in answer.items():
            found.setdefault(group, {}).update((info.client_id, info) for info in infos)
    return {group: sorted(infos.values()) for group, infos in sorted(found.items())}


def _topic_masters(route: TopicRoute) -> dict[str, str]:
    """Return broker name to master address, for the brokers that hold queues of the topic."""
    holders = {queue.broker_name for queue in route.queues}
    return {
        broker.broker_name: broker.addresses[MASTER_ID]
        for broker in route.brokers
        if broker.broker_name in holders and MASTER_ID in broker.addresses
    }
