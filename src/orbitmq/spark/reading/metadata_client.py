"""The blocking client for metadata: a topic's queues, the brokers that hold them, and where queues begin and end.

Connections stay open between micro-batches; questions to one broker leave together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType

from orbitmq.client.consume.pull_request import PullStatus, parse_pull_answer, plain_pull
from orbitmq.client.routing.nameserver_list import NameServerList
from orbitmq.client.routing.route_cache import address_of
from orbitmq.client.routing.route_queues import leaders, readable_queues
from orbitmq.codes import ResponseCode
from orbitmq.errors import (
    ClientError,
    ConfigError,
    InvalidArgument,
    NoNameServer,
    RemoteRefused,
    RequestTimeout,
    RouteNotFound,
)
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.model.static_topic import LOGICAL_BROKER_PREFIX
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.security.client_security import UNSECURED, ClientSecurity
from orbitmq.spark.offsets import (
    Bound,
    Committed,
    Earliest,
    Latest,
    Offsets,
    QueueTimes,
    Timestamp,
    check_queues,
    queue_names,
    resolve_marks,
)
from orbitmq.spark.options import ReadOptions, matches_pattern
from orbitmq.spark.reading.checkpoint import Origin
from orbitmq.spark.reading.fan_out import Rounds
from orbitmq.spark.security import read_security
from orbitmq.wire.bodies.route import decode_cluster_info, decode_route
from orbitmq.wire.bodies.topics import decode_topic_list, decode_topic_stats
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    EarliestStoreTimeResponse,
    GetAllTopics,
    GetClusterInfo,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    GetRouteInfo,
    GetTopicStats,
    OffsetResponse,
    PullMessage,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from orbitmq.wire.messages.record import queue_offsets_in

log = logging.getLogger(__name__)

_PASSING_CODES = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NOT_LEADER_FOR_QUEUE,
    }
)
"""Answers that say "not now": the question is repeated later."""
_NOT_TOLD = frozenset({ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED})
"""Answers of a broker that does not list all queues of a topic in one answer, to this account or to any."""
MANY_QUEUES = 4
"""Queues of a topic at one broker from which on it is asked for all of them in one request."""
ROUND_S = 1.0
"""Brokers that answer are not kept waiting longer for those that do not."""
SAMPLE_COUNT = 8
SAMPLE_SIZE = 64 * 1024
"""Messages and bytes of a pull that is only to find out how large messages are."""

_NAMED_MAX = 4
"""Queues that an error names."""


def is_passing(refusal: RemoteRefused) -> bool:
    """Return True if the same question may be answered a little later."""
    return refusal.code in _PASSING_CODES and not refusal.is_final


QueueAddresses = dict[MessageQueue, str]
"""The address, host:port, of the broker to read each queue from."""
Gone = Callable[[MessageQueue], None]


class QueuesNotTold(ClientError):
    """A broker did not answer a question about queues.

    Args:
        error: why not.
    """

    def __init__(self, queues: Sequence[MessageQueue], error: ClientError) -> None:
        more = f" and {len(queues) - _NAMED_MAX} more" if len(queues) > _NAMED_MAX else ""
        super().__init__(f"{queue_names(sorted(queues)[:_NAMED_MAX])}{more}: {error}")
        self.error = error


class MetadataClient:
    """Asks NameServers for routes and brokers for offsets.

    Args:
        name_servers: host:port each; asked in turn until one answers.
        timeout_ms: for connecting, and for each answer.
        security: what requests are signed with, and connections encrypted with.
    """

    def __init__(
        self, name_servers: Sequence[str], *, timeout_ms: int = 3000, security: ClientSecurity = UNSECURED
    ) -> None:
        self._name_servers = NameServerList(name_servers)
        self._timeout_ms = timeout_ms
        self._security = security
        self._connections: dict[str, BlockingConnection] = {}
        self._asked_singly: set[str] = set()
        """Brokers that do not list all queues of a topic in one answer."""
        self.is_connected = False
        """True once a NameServer has answered: before that the addresses may be misspelt."""
        self._is_closed = False
        self._committed: set[tuple[str, str, str]] = set()
        self._rounds: Rounds[list[Command]] = Rounds()
        self._name_rounds: Rounds[list[Command]] = Rounds()
        """Of their own: routes may be asked for in another thread than offsets."""

    @classmethod
    def of(cls, options: ReadOptions) -> MetadataClient:
        """Return the client that a query's options describe."""
        security = read_security(options.security_file)
        return cls(options.name_servers, timeout_ms=options.pull_timeout_ms, security=security)

    def __enter__(self) -> MetadataClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection, those of questions that are still under way when they are answered."""
        self._is_closed = True
        while self._connections:
            self._connections.popitem()[1].close()

    def queues_of(
        self, options: ReadOptions, missing: Callable[[str, RouteNotFound], None] | None = None
    ) -> QueueAddresses:
        """Return the queues that a query reads now; see `queues`."""
        found = self.queues(options.topics, options.topic_pattern, missing)
        if options.assigned is None:
            return found
        return {queue: address for queue, address in found.items() if queue in options.assigned}

    def queues_at_start(self, options: ReadOptions) -> QueueAddresses:
        """Return `queues_of`; a query that begins has to find each queue that was assigned to it. Raises ConfigError."""
        found = self.queues_of(options)
        missing = sorted((options.assigned or frozenset()) - found.keys())
        if missing:
            known = queue_names(self.queues(options.topics))
            raise ConfigError("assign", queue_names(missing), f"queues of the topic's route: {known}")
        return found

    def queues(
        self,
        topics: Iterable[str],
        pattern: str | None = None,
        missing: Callable[[str, RouteNotFound], None] | None = None,
    ) -> QueueAddresses:
        """Return the readable queues of `topics`, or of the topics that `pattern` matches, and where to read them.

        Args:
            missing: called with each named topic that does not exist, while others do; None: raise.

        Raises:
            RouteNotFound: a topic that was named does not exist.
            NoNameServer: none answered.
        """
        found: QueueAddresses = {}
        absent: dict[str, RouteNotFound] = {}
        for topic in topics:
            try:
                found |= queue_addresses(topic, self.route(topic))
            except RouteNotFound as error:
                absent[topic] = error
        for topic, reason in absent.items():
            if missing is None or not found:
                raise reason
            missing(topic, reason)
        if pattern is not None:
            for topic in self.matching_topics(pattern):
                try:
                    found |= queue_addresses(topic, self.route(topic))
                except RouteNotFound:  # deleted since the list was made
                    continue
        return found

    def left_queues(self, options: ReadOptions, queues: QueueAddresses) -> QueueAddresses:
        """Return queues that hold messages and that their topic's route names no more, where their broker still gives them.

        Args:
            queues: those of the routes. Their brokers are asked; one that does not list queues has none to add.
        """
        named = {q: address for q, address in queues.items() if not q.broker_name.startswith(LOGICAL_BROKER_PREFIX)}
        held = _by_address(named)
        asked = {
            address: [GetTopicStats(topic=topic) for topic in {q.topic for q in found}]
            for address, found in held.items()
        }
        left: QueueAddresses = {}
        begins: dict[MessageQueue, int] = {}
        for address, answers in self._ask_each(asked, None, held).items():
            for answer in answers:
                if answer.code != ResponseCode.SUCCESS:
                    continue
                for queue, stats in decode_topic_stats(answer.body).items():
                    is_wanted = options.assigned is None or queue in options.assigned
                    if is_wanted and queue not in queues and stats.min_offset < stats.max_offset:
                        left[queue], begins[queue] = address, stats.min_offset
        given = self.record_sizes(left, begins, options.group)
        if unread := left.keys() - given.keys():
            log.warning(
                "queues that their topic's route names no more hold messages, and cannot be read: %s",
                queue_names(sorted(unread)),
            )
        return {queue: address for queue, address in left.items() if queue in given}

    def route(self, topic: str) -> TopicRoute:
        """Return a topic's route.

        Raises:
            RouteNotFound: no NameServer that answered knows one.
            NoNameServer: the one that answered knows no broker either, as one that was started a moment ago.
        """
        answer = self._ask_name_server(GetRouteInfo(topic=topic, accept_standard_json_only=True))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            servers = ", ".join(self._name_servers.addresses)
            info = self._ask_name_server(GetClusterInfo())
            if info.code == ResponseCode.SUCCESS and not decode_cluster_info(info.body).brokers:
                raise NoNameServer(f"no broker is registered at {servers}: it may have been started a moment ago")
            raise RouteNotFound(
                f"topic {topic} has no route at {servers}: create it, or start the broker that holds it"
            )
        return decode_route(_accepted(answer, self._name_servers.addresses[0]).body)

    def matching_topics(self, pattern: str) -> list[str]:
        """Return the topics that `pattern` means; see `matches_pattern`."""
        answer = _accepted(self._ask_name_server(GetAllTopics()), self._name_servers.addresses[0])
        return [topic for topic in sorted(decode_topic_list(answer.body).topics) if matches_pattern(topic, pattern)]

    def latest(
        self,
        queues: QueueAddresses,
        *,
        unreachable: Callable[[str, ClientError], None] | None = None,
        gone: Gone | None = None,
    ) -> Offsets:
        """Return the offset behind the last message of each queue.

        Args:
            unreachable: called with each broker that does not answer, or not now, whose queues are left out then; None: raise.
            gone: called with each queue whose topic its broker does not have any more: it ends at 0, as Java's broker says; None:
                raise.
        """
        told, busy = self._told_by_topic(queues, unreachable)
        rest = {
            queue: address
            for queue, address in queues.items()
            if queue not in told and (address, queue.topic) not in busy
        }

        def question(queue: MessageQueue) -> GetMaxOffset:
            return GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id)

        return {**told, **self._offsets(rest, question, unreachable, gone=gone)}

    def _told_by_topic(
        self, queues: QueueAddresses, unreachable: Callable[[str, ClientError], None] | None
    ) -> tuple[dict[MessageQueue, int], set[tuple[str, str]]]:
        """Return where queues end, of topics that have many at one broker: it tells of all of them in one answer.

        And the addresses and topics of those that are not told of now.
        """
        topics: dict[str, dict[str, int]] = {}
        for queue, address in queues.items():
            # A broker tells of its own part of a static topic, not of the whole.
            if address not in self._asked_singly and not queue.broker_name.startswith(LOGICAL_BROKER_PREFIX):
                counts = topics.setdefault(address, {})
                counts[queue.topic] = counts.get(queue.topic, 0) + 1
        asked = {
            address: [GetTopicStats(topic=topic) for topic, count in counts.items() if count >= MANY_QUEUES]
            for address, counts in topics.items()
        }
        asked = {address: headers for address, headers in asked.items() if headers}
        told: dict[MessageQueue, int] = {}
        busy: set[tuple[str, str]] = set()
        for address, answers in self._ask_each(asked, unreachable, _by_address(queues)).items():
            for header, answer in zip(asked[address], answers, strict=True):
                if answer.code == ResponseCode.SUCCESS:
                    ends = {queue: found.max_offset for queue, found in decode_topic_stats(answer.body).items()}
                    told |= {queue: end for queue, end in ends.items() if queues.get(queue) == address}
                elif answer.code in _NOT_TOLD:
                    self._asked_singly.add(address)
                elif unreachable is not None and is_passing(
                    refusal := RemoteRefused(answer.code, answer.remark, address)
                ):
                    unreachable(address, refusal)
                    busy.add((address, header.topic))
        return told, busy

    def earliest(self, queues: QueueAddresses, *, gone: Gone | None = None) -> Offsets:
        """Return the offset of the first message of each queue that is still there.

        Args:
            gone: as of `latest`.
        """
        return self._offsets(queues, lambda q: GetMinOffset(topic=q.topic, queue_id=q.queue_id), gone=gone)

    def origins(self, queues: QueueAddresses) -> dict[MessageQueue, Origin | None]:
        """Return what each queue holds first, of those whose broker answers; None for one that holds nothing."""
        # One after the other: a message that retention takes in between makes the offset too low then, which says nothing.
        # Of a topic that was deleted the second question is answered in the same way.
        offsets = self._offsets(
            queues, lambda q: GetMinOffset(topic=q.topic, queue_id=q.queue_id), _pass_over, gone=lambda _: None
        )
        held = _by_address({queue: queues[queue] for queue in offsets})
        asked = {
            address: [GetEarliestStoreTime(topic=queue.topic, queue_id=queue.queue_id) for queue in found]
            for address, found in held.items()
        }
        origins: dict[MessageQueue, Origin | None] = {}
        for address, answers in self._ask_each(asked, _pass_over, held).items():
            for queue, answer in zip(held[address], answers, strict=True):
                if answer.code == ResponseCode.SUCCESS:
                    stored_at_ms = decode_header(EarliestStoreTimeResponse, answer.ext_fields).timestamp_ms
                    origins[queue] = Origin(offsets[queue], stored_at_ms) if stored_at_ms >= 0 else None
                elif answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    origins[queue] = None
        return origins

    def at(self, queues: QueueAddresses, times_ms: int | Mapping[MessageQueue, int]) -> Offsets:
        """Return the offset of the first message of each queue that was stored at or after a time, each queue's own or one."""

        def question(queue: MessageQueue) -> SearchOffset:
            time_ms = times_ms if isinstance(times_ms, int) else times_ms[queue]
            return SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp_ms=time_ms)

        return self._offsets(queues, question)

    def committed(self, queues: QueueAddresses, group: str) -> Offsets:
        """Return the offsets that a group has committed; where a queue begins that it has not consumed yet."""

        def question(queue: MessageQueue) -> QueryConsumerOffset:
            return QueryConsumerOffset(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
            )

        known = self._offsets(queues, question, unknown=ResponseCode.QUERY_NOT_FOUND)
        begins = self.earliest({queue: address for queue, address in queues.items() if queue not in known})
        return {**known, **begins}

    def commit(self, queues: QueueAddresses, group: str, offsets: Offsets) -> None:
        """Commit offsets for a group, of those of its queues that were found.

        The first offset in a topic's queues on a broker goes before the others: Java's broker loses one of two first ones that come
        at the same time (ConsumerOffsetManager.commitOffset).

        Raises:
            ClientError: a broker refused, or did not answer in time; the others have been told.
        """
        found = {queue: queues[queue] for queue in offsets if queue in queues}
        firsts = {(group, address, queue.topic): queue for queue, address in found.items()}
        firsts = {place: queue for place, queue in firsts.items() if place not in self._committed}
        first = {queue: found.pop(queue) for queue in firsts.values()}
        failed = self._commit(first, group, offsets) if first else []
        failed += self._commit(found, group, offsets)
        if failed:
            raise failed[0]
        self._committed |= firsts.keys()

    def _commit(self, found: QueueAddresses, group: str, offsets: Offsets) -> list[ClientError]:
        """Commit offsets at the same time; return what went wrong."""

        def question(queue: MessageQueue) -> UpdateConsumerOffset:
            return UpdateConsumerOffset(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offsets[queue]
            )

        failed: list[ClientError] = []
        held = _by_address(found)
        asked = {address: [question(queue) for queue in group] for address, group in held.items()}
        for address, answers in self._ask_each(asked, lambda _, error: failed.append(error), held).items():
            for answer in answers:
                if answer.code != ResponseCode.TOPIC_NOT_EXIST:  # a topic that was deleted has no offsets to keep
                    _accepted(answer, address)
        return failed

    def record_sizes(self, queues: QueueAddresses, begins: Offsets, group: str) -> dict[MessageQueue, float]:
        """Return the mean size of the next few messages of each queue, of those that have some at their start."""

        def question(queue: MessageQueue) -> PullMessage:
            return plain_pull(
                queue.topic, queue.queue_id, begins[queue], SAMPLE_COUNT, group=group, size_max=SAMPLE_SIZE
            )

        sizes: dict[MessageQueue, float] = {}
        held = _by_address({queue: queues[queue] for queue in begins if queue in queues})
        asked = {address: [question(queue) for queue in group] for address, group in held.items()}
        for address, answers in self._ask_each(asked, _no_size, held).items():
            for queue, answer in zip(held[address], answers, strict=True):
                result = parse_pull_answer(answer)
                if result is not None and result.status is PullStatus.FOUND:
                    sizes[queue] = len(result.records) / len(queue_offsets_in(result.records))
        return sizes

    def resolve(self, queues: QueueAddresses, bound: Bound, option: str) -> Offsets:
        """Return the offset of each queue that `bound` means now.

        Args:
            option: the option that names the bound; stands in the error.

        Raises:
            ConfigError: the bound names other queues than there are.
        """
        match bound:
            case Earliest():
                return self.earliest(queues)
            case Latest():
                return self.latest(queues)
            case Timestamp(ms):
                return self.at(queues, ms)
            case Committed(group):
                return self.committed(queues, group)
        try:
            if isinstance(bound, QueueTimes):
                check_queues(bound.times_ms, queues, option)
                return self.at(queues, bound.times_ms)
            return resolve_marks(bound, self.earliest(queues), self.latest(queues), option)
        except InvalidArgument as error:
            raise ConfigError(error.field, error.value, error.allowed) from error

    def _offsets(
        self,
        queues: QueueAddresses,
        question: Callable[[MessageQueue], object],
        unreachable: Callable[[str, ClientError], None] | None = None,
        unknown: ResponseCode | None = None,
        gone: Gone | None = None,
    ) -> Offsets:
        """Return the offset that answers the question about each queue, but for those whose answer has the code `unknown`."""
        held = _by_address(queues)
        asked = {address: [question(queue) for queue in found] for address, found in held.items()}
        offsets: dict[MessageQueue, int] = {}
        for address, answers in self._ask_each(asked, unreachable, held).items():
            for queue, answer in zip(held[address], answers, strict=True):
                if answer.code == unknown:
                    continue
                if gone is not None and answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    gone(queue)
                    offsets[queue] = 0
                    continue
                if answer.code != ResponseCode.SUCCESS:
                    error = RemoteRefused(answer.code, answer.remark, address)
                    if unreachable is None or not is_passing(error):
                        raise QueuesNotTold([queue], error)
                    unreachable(address, error)
                    continue
                offsets[queue] = decode_header(OffsetResponse, answer.ext_fields).offset
        return offsets

    def _ask_each(
        self,
        questions: Mapping[str, Sequence[object]],
        unreachable: Callable[[str, ClientError], None] | None,
        held: Mapping[str, Sequence[MessageQueue]],
    ) -> dict[str, list[Command]]:
        """Ask several brokers at the same time; return the answers by address.

        Args:
            unreachable: called with each broker that does not answer, or not within `ROUND_S`; None: raise.
            held: the queues that a broker is asked about.
        """
        asking = {address: partial(self._ask, address, headers) for address, headers in questions.items()}
        answers: dict[str, list[Command]] = {}
        for address, outcome in self._rounds.ask(asking, None if unreachable is None else ROUND_S).items():
            if not isinstance(outcome, Exception):
                answers[address] = outcome
            elif not isinstance(outcome, ClientError):
                raise outcome
            elif unreachable is None:
                raise QueuesNotTold(held[address], outcome) from outcome
            else:
                unreachable(address, outcome)
        return answers

    def _ask_name_server(self, header: object) -> Command:
        """Ask NameServers in turn, none for longer than `ROUND_S`; where none answers so soon, wait for all of them.

        One that does not know the topic is passed over: brokers register with each one by itself.
        """
        unknown: Command | None = None
        failed: dict[str, Exception] = {}
        addresses = self._name_servers.addresses
        asking = {address: partial(self._ask, address, [header]) for address in addresses}
        for address in addresses:
            outcome = self._name_rounds.ask({address: asking[address]}, ROUND_S)[address]
            if isinstance(outcome, Exception):
                failed[address] = outcome
                self._name_servers.mark_failed(address)
            elif outcome[0].code != ResponseCode.TOPIC_NOT_EXIST:
                self.is_connected = True
                return outcome[0]
            else:
                self.is_connected = True
                unknown = outcome[0]
        if unknown is not None:
            return unknown
        late = {address: asking[address] for address in addresses if isinstance(failed[address], RequestTimeout)}
        for address, outcome in self._name_rounds.ask(late, None).items():
            if not isinstance(outcome, Exception):
                self.is_connected = True
                self._name_servers.mark_answered(address)
                return outcome[0]
            failed[address] = outcome
        for error in failed.values():
            if not isinstance(error, ClientError):
                raise error
        raise NoNameServer(f"no NameServer could be asked: {'; '.join(map(str, failed.values()))}")

    def _ask(self, address: str, headers: Sequence[object]) -> list[Command]:
        """Send all questions before the first answer. A connection that was open already may have died: then a new one is tried."""
        was_open = address in self._connections
        try:
            return self._ask_once(address, headers)
        except ClientError:
            if not was_open:
                raise
            return self._ask_once(address, headers)

    def _ask_once(self, address: str, headers: Sequence[object]) -> list[Command]:
        connection = self._connections.pop(address, None) or BlockingConnection(
            address, timeout_ms=self._timeout_ms, **self._security._asdict()
        )
        try:
            opaques = [connection.send(header) for header in headers]
            answers = [connection.receive(opaque) for opaque in opaques]
        except BaseException:
            connection.close()
            raise
        # An answer that was late may have come in a thread of its own, over a connection of its own: one is enough.
        if self._connections.setdefault(address, connection) is not connection:
            connection.close()
        if self._is_closed:
            self.close()
        return answers


def queue_addresses(topic: str, route: TopicRoute) -> QueueAddresses:
    """Return a topic's readable queues and where to read each: at its master, or at a slave while there is none."""
    addresses = {broker.broker_name: address_of(broker) for broker in route.brokers}
    leading = leaders(topic, route)
    return {
        queue: address
        for queue in readable_queues(topic, route)
        if (address := addresses.get(leading.get(queue, queue.broker_name))) is not None
    }


def _no_size(address: str, error: ClientError) -> None:
    log.warning("broker %s does not say how large its messages are: %s", address, error)


def _pass_over(address: str, error: ClientError) -> None:
    log.warning("broker %s does not say what its queues begin with: %s", address, error)


def _by_address(queues: QueueAddresses) -> dict[str, list[MessageQueue]]:
    by_address: dict[str, list[MessageQueue]] = {}
    for queue, address in queues.items():
        by_address.setdefault(address, []).append(queue)
    return by_address


def _accepted(answer: Command, address: str) -> Command:
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteRefused(answer.code, answer.remark, address)
    return answer
