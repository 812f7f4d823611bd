"""A NameServer and brokers in memory, on real sockets: they speak the contract that real ones do, and fail on demand."""

import asyncio
from collections import defaultdict
from dataclasses import replace

from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, Rejected
from orbitmq.model.message import Host
from orbitmq.model.route import BrokerData, QueueData, TopicRoute
from orbitmq.net.dispatch.handlers import LATER, Handlers, Reply
from orbitmq.net.server import Server
from orbitmq.net.session import make_request
from orbitmq.wire import headers
from orbitmq.wire.bodies.heartbeat import (
    decode_heartbeat,
    decode_queue_lock,
    encode_consumer_list,
    encode_locked_queues,
)
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.messages.batch import parse_batch
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.properties import parse_properties, tag_code
from orbitmq.wire.messages.record import format_record

name_server_handlers = Handlers()
broker_handlers = Handlers()

STORE_HOST = Host("127.0.0.1", 10911)


class FakeServer:
    """Something that listens, can be stopped, and comes back under the same address."""

    handlers: Handlers

    def __init__(self):
        self._port = 0
        self._server = None
        self.tls = None

    async def start(self):
        self._server = Server(self.handlers, self, name=type(self).__name__, tls=self.tls)
        self._port = await self._server.start("127.0.0.1", self._port)

    async def stop(self):
        if self._server is not None:
            await self._server.close()
            self._server = None

    @property
    def address(self):
        return f"127.0.0.1:{self._port}"

    @property
    def connections(self):
        return self._server.connections


class FakeNameServer(FakeServer):
    handlers = name_server_handlers

    def __init__(self, routes):
        super().__init__()
        self.routes = routes
        self.asked = []
        self.commands = []
        self.refusal = None
        self.is_silent = False


class FakeBroker(FakeServer):
    """One master. `refusals` holds the codes with which the next requests of a header type are refused."""

    handlers = broker_handlers

    def __init__(self, name):
        super().__init__()
        self.name = name
        self.queues = defaultdict(list)
        self.log = []
        self.locks = QueueLocks(60_000, 5_000)
        self.min_offsets = defaultdict(int)
        self.offsets = {}
        self.heartbeats = []
        self.members = {}
        self.clients = {}
        self.unregistered = []
        self.requests = []
        self.commands = []
        self.refusals = defaultdict(list)
        self.silent = set()
        self.delays = {}
        self.held = []
        self.holds_pulls = True
        self.suggested_broker_id = 0

    async def stop(self):
        await super().stop()
        self.locks = QueueLocks(60_000, 5_000)
        self.held.clear()
        self.members.clear()
        self.clients.clear()

    def bodies(self, topic):
        return [body for (name, _), queue in sorted(self.queues.items()) if name == topic for body, _, _ in queue]

    def put(self, topic, queue_id, *bodies, tag=None, stored_at_ms=0, properties=None):
        encoded = {**({"TAGS": tag} if tag else {}), **(properties or {})}
        for body in bodies:
            self.append(topic, queue_id, body, encoded, stored_at_ms=stored_at_ms)

    def append(self, topic, queue_id, body, properties, *, flag=0, sys_flag=0, stored_at_ms=0, reconsume_times=0):
        queue = self.queues[topic, queue_id]
        offset = len(queue)
        physical_offset = 1_000 * len(self.log)
        self.log.append((topic, body, properties, reconsume_times))
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
        record = format_record(
            topic=topic, body=body, properties=text, queue_id=queue_id, flag=flag, queue_offset=offset,
            physical_offset=physical_offset, sys_flag=sys_flag, stored_at_ms=stored_at_ms, store_host=STORE_HOST,
            reconsume_times=reconsume_times,
        )  # fmt: skip
        queue.append((body, record, (properties.get("TAGS"), stored_at_ms)))
        waiting, self.held = self.held, []
        for call in waiting:
            self.pull(call)
        return offset

    def last_id(self):
        return offset_message_id(STORE_HOST, 1_000 * (len(self.log) - 1))

    def pull(self, call):
        header = call.header
        key = (header.topic, header.queue_id)
        queue, start = self.queues[key], header.queue_offset
        first, end = self.min_offsets[key], len(queue)

        def reply(code, next_offset, body=b""):
            found = headers.PullResponse(
                suggest_which_broker_id=self.suggested_broker_id,
                next_begin_offset=next_offset,
                min_offset=first,
                max_offset=end,
            )
            return Reply(code, header=found, body=body)

        if not first <= start <= end:
            call.answer(reply(ResponseCode.PULL_OFFSET_MOVED, first if start < first else end))
            return
        if start == end:
            if self.holds_pulls:
                self.held.append(call)
            else:
                call.answer(reply(ResponseCode.PULL_NOT_FOUND, start))
            return
        scanned = queue[start : start + header.count_max]
        wanted = {tag_code(tag.strip()) for tag in header.subscription.split("||")} - {tag_code("*")}
        body = b"".join(record for _, record, (tag, _) in scanned if not wanted or tag_code(tag or "") in wanted)
        code = ResponseCode.SUCCESS if body else ResponseCode.PULL_RETRY_IMMEDIATELY
        call.answer(reply(code, start + len(scanned), body))

    def notify(self, group):
        for connection in self.connections:
            connection.send_oneway(headers.NotifyConsumerIdsChanged(consumer_group=group))

    def check(self, call):
        """Note a request; refuse it, or keep it unanswered, when the test wants that."""
        kind = type(call.header)
        self.requests.append(call.header)
        self.commands.append(call.command)
        if self.refusals[kind]:
            raise Rejected(self.refusals[kind].pop(0), "as the test wants")
        return kind in self.silent


class FakeCluster:
    """One NameServer and two brokers; topics are made by `topic`."""

    def __init__(self):
        self.routes = {}
        self.name_server = FakeNameServer(self.routes)
        self.a = FakeBroker("broker-a")
        self.b = FakeBroker("broker-b")

    async def __aenter__(self):
        for server in (self.name_server, self.a, self.b):
            await server.start()
        return self

    async def __aexit__(self, *_):
        for server in (self.name_server, self.a, self.b):
            await server.stop()

    @property
    def name_servers(self):
        return [self.name_server.address]

    def topic(self, topic, *brokers, count=2, perm=6, write_count=None):
        brokers = brokers or (self.a,)
        queues = tuple(
            QueueData(
                broker_name=broker.name,
                read_queue_count=count,
                write_queue_count=count if write_count is None else write_count,
                perm=perm,
            )
            for broker in brokers
        )
        datas = tuple(
            BrokerData(cluster="c", broker_name=broker.name, addresses={0: broker.address}) for broker in brokers
        )
        self.routes[topic] = TopicRoute(queues=queues, brokers=datas)

    def fail_over(self, topic):
        """Let the second broker be the master of the first one's name, and the first its slave."""
        route = self.routes[topic]
        (broker,) = route.brokers
        moved = replace(broker, addresses={0: self.b.address, 1: self.a.address})
        self.routes[topic] = replace(route, brokers=(moved,))

    def fill(self, *bodies, **properties):
        """Make the topic orders, of one queue on broker-a with these messages."""
        self.topic("orders", count=1)
        self.a.put("orders", 0, *bodies, **properties)

    def static_topic(self, topic, *leaders, epoch=1):
        """Make a static topic: the first logical queue is led by the first broker, and so on."""
        self.topic(topic, self.a, self.b)
        mappings = {
            broker.name: {
                "bname": broker.name,
                "currIdMap": {str(number): number for number, leader in enumerate(leaders) if leader is broker},
                "epoch": epoch,
                "scope": "__global__",
                "topic": topic,
                "totalQueues": len(leaders),
            }
            for broker in (self.a, self.b)
        }
        self.routes[topic] = replace(self.routes[topic], queue_mappings=mappings)


@name_server_handlers.on(headers.GetRouteInfo)
def _route(server, call):
    server.asked.append(call.header.topic)
    server.commands.append(call.command)
    if server.is_silent:
        return LATER
    if server.refusal is not None:
        raise Rejected(server.refusal, "as the test wants")
    route = server.routes.get(call.header.topic)
    if route is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"No topic route info for {call.header.topic}")
    return Reply(body=encode_route(route, standard=False))


@broker_handlers.on(headers.SendMessageV2)
def _send(broker, call):
    if broker.check(call):
        return LATER
    header = call.header
    properties = parse_properties(header.properties or "")
    if "REPLY_TO_CLIENT" in properties:
        properties["CLUSTER"] = "c"
    offset = broker.append(
        header.topic, header.queue_id, call.command.body, properties, flag=header.flag, sys_flag=header.sys_flag
    )
    message_id = broker.last_id()
    reply = Reply(header=headers.SendResponse(message_id=message_id, queue_id=header.queue_id, queue_offset=offset))
    if headers.SendMessageV2 in broker.delays:
        asyncio.get_running_loop().call_later(broker.delays[headers.SendMessageV2], call.answer, reply)
        return LATER
    return reply


@broker_handlers.on(headers.EndTransaction)
def _end_transaction(broker, call):
    return LATER if broker.check(call) else Reply()


@broker_handlers.on(headers.SendReplyV2)
def _send_reply(broker, call):
    if broker.check(call):
        return LATER
    client = broker.clients.get(parse_properties(call.header.properties)["REPLY_TO_CLIENT"])
    if client is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "channel not found")

    def answered(answer):
        code = ResponseCode.SYSTEM_ERROR if isinstance(answer, ClientError) else answer.code
        call.answer(Reply(code, header=headers.SendResponse(message_id="0", queue_id=0, queue_offset=0)))

    client.send_request(make_request(pushed(call.header), call.command.body), answered, timeout_ms=20_000)
    return LATER


def pushed(header):
    """Return the header with which a broker pushes the reply that came with `header`."""
    return headers.PushReply(
        producer_group=header.producer_group, topic=header.topic, default_topic=header.default_topic,
        default_topic_queue_nums=4, queue_id=header.queue_id, sys_flag=header.sys_flag, born_at_ms=header.born_at_ms,
        flag=header.flag, properties=header.properties, born_host="127.0.0.1:1", store_host="127.0.0.1:2",
        stored_at_ms=2,
    )  # fmt: skip


@broker_handlers.on(headers.SendBatch)
def _send_batch(broker, call):
    if broker.check(call):
        return LATER
    header = call.header
    offsets, ids = [], []
    for item in parse_batch(call.command.body):
        properties = parse_properties(item.properties)
        offsets.append(broker.append(header.topic, header.queue_id, item.body, properties, flag=item.flag))
        ids.append(broker.last_id())
    return Reply(
        header=headers.SendResponse(message_id=",".join(ids), queue_id=header.queue_id, queue_offset=offsets[0])
    )


@broker_handlers.on(headers.PullMessage)
def _pull(broker, call):
    header = call.header
    if header.sys_flag & headers.PullSysFlag.COMMIT_OFFSET:
        broker.offsets[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
    if not broker.check(call):
        # The handler's own return value says LATER; what can be answered is answered on the next turn of the loop.
        asyncio.get_running_loop().call_soon(broker.pull, call)
    return LATER


@broker_handlers.on(headers.ConsumerSendBack)
def _send_back(broker, call):
    """What a real broker does, but without the delay."""
    if broker.check(call):
        return LATER
    header = call.header
    topic, body, properties, reconsume_times = broker.log[header.physical_offset // 1_000]
    is_dead = header.delay_level < 0 or reconsume_times >= header.max_reconsume_times
    properties = {"RETRY_TOPIC": topic, **properties}
    prefix = "%DLQ%" if is_dead else "%RETRY%"
    broker.append(prefix + header.group, 0, body, properties, reconsume_times=reconsume_times + 1)
    return Reply()


@broker_handlers.on(headers.LockQueues)
def _lock(broker, call):
    if broker.check(call):
        return LATER
    asked = decode_queue_lock(call.command.body)
    return Reply(body=encode_locked_queues(broker.locks.lock(asked.group, asked.client_id, asked.queues, 0)))


@broker_handlers.on(headers.UnlockQueues)
def _unlock(broker, call):
    if broker.check(call):
        return LATER
    asked = decode_queue_lock(call.command.body)
    broker.locks.unlock(asked.group, asked.client_id, asked.queues)
    return Reply()


@broker_handlers.on(headers.HeartbeatRequest)
def _heartbeat(broker, call):
    if broker.check(call):
        return LATER
    heartbeat = decode_heartbeat(call.command.body)
    broker.heartbeats.append(heartbeat)
    broker.clients[heartbeat.client_id] = call.connection
    for consumer in heartbeat.consumers:
        members = broker.members.setdefault(consumer.group, {})
        is_new = heartbeat.client_id not in members
        members[heartbeat.client_id] = consumer
        if is_new:
            broker.notify(consumer.group)
    return Reply()


@broker_handlers.on(headers.UnregisterClient)
def _unregister(broker, call):
    broker.unregistered.append(call.header)
    members = broker.members.get(call.header.consumer_group or "", {})
    if members.pop(call.header.client_id, None):
        broker.notify(call.header.consumer_group)
    return Reply()


@broker_handlers.on(headers.GetConsumerList)
def _members(broker, call):
    if broker.check(call):
        return LATER
    members = broker.members.get(call.header.consumer_group)
    if not members:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "no consumer for this group")
    return Reply(body=encode_consumer_list(members))


@broker_handlers.on(headers.QueryConsumerOffset)
def _committed(broker, call):
    broker.check(call)
    header = call.header
    offset = broker.offsets.get((header.consumer_group, header.topic, header.queue_id))
    if offset is None and header.set_zero_if_not_found is not False and not broker.min_offsets[_key(header)]:
        offset = 0
    if offset is None:
        raise Rejected(ResponseCode.QUERY_NOT_FOUND, "not found")
    return Reply(header=headers.OffsetResponse(offset=offset))


@broker_handlers.on(headers.UpdateConsumerOffset)
def _commit(broker, call):
    broker.check(call)
    header = call.header
    broker.offsets[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
    return Reply()


@broker_handlers.on(headers.GetMaxOffset)
def _max(broker, call):
    broker.check(call)
    return Reply(header=headers.OffsetResponse(offset=len(broker.queues[_key(call.header)])))


@broker_handlers.on(headers.GetMinOffset)
def _min(broker, call):
    broker.check(call)
    return Reply(header=headers.OffsetResponse(offset=broker.min_offsets[_key(call.header)]))


@broker_handlers.on(headers.SearchOffset)
def _search(broker, call):
    broker.check(call)
    stored = [stored_at_ms for _, _, (_, stored_at_ms) in broker.queues[_key(call.header)]]
    offset = sum(1 for stored_at_ms in stored if stored_at_ms < call.header.timestamp_ms)
    return Reply(header=headers.OffsetResponse(offset=offset))


def _key(header):
    return header.topic, header.queue_id
