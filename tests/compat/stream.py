"""A random stream of requests to a NameServer: what brokers, clients and operators of several versions send.

Pure: the whole stream follows from the seed. It remembers what it registered, so that most requests make sense; what the
servers answer does not influence it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from random import Random
from struct import pack
from typing import Any

CHAPTER = 2000
"""Requests after which everything is taken down and compared: a difference cannot hide behind a later one."""
GROUPS, IDS, TOPICS, CLUSTERS = 6, 3, 14, 2
LONG_LEASE_MS = 36_000_000
VERSIONS = (315, 393, 401, 413, 453, 479)
OLD_VERSION = 36
FLAGS = {"topic-0": 1, "topic-1": 2, "topic-2": 3}
KV_SPACES = ("ORDER_TOPIC_CONFIG", "space-a", "space-b")
TOGGLES = (
    "enableAllTopicList",
    "enableTopicList",
    "orderMessageEnable",
    "supportActingMaster",
    "returnOrderTopicConfigToBroker",
    "deleteTopicWithBrokerRegistration",
)
DEFAULTS = {"enableAllTopicList": True, "enableTopicList": True, "returnOrderTopicConfigToBroker": True}


class Way(Enum):
    """How a step is carried out and compared."""

    ASK = auto()
    """Code, remark, fields and body are compared."""
    CODE = auto()
    """Only the code: the remark is an exception's text, or the answer differs for a listed reason."""
    LEAVE = auto()
    """As ASK; Java carries it out a moment later, which is waited for."""
    VANISH = auto()
    """The broker registers on a connection of its own, which then closes."""
    EXPIRE = auto()
    """The broker registers with a lease of a blink and falls silent."""


@dataclass(frozen=True)
class Step:
    """One request."""

    code: int
    ext_fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    version: int = 479
    binary: bool = False
    way: Way = Way.ASK


@dataclass
class Broker:
    """What the stream knows of a broker that it plays."""

    cluster: str
    name: str
    broker_id: int
    address: str
    acting_master: bool | None
    zone: str | None
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: dict[str, int] = field(default_factory=dict)
    is_displaced: bool = False
    """Another process has taken its id since it registered last."""
    is_registered: bool = False

    def fields(self, **changed: str) -> dict[str, str]:
        """The header fields that name the broker."""
        return {
            "brokerName": self.name,
            "brokerAddr": self.address,
            "clusterName": self.cluster,
            "brokerId": str(self.broker_id),
            **changed,
        }


class Stream:
    """Yields the steps of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._chapter = 0
        self._clock_ms = 1_700_000_000_000
        self._brokers: list[Broker] = []

    def steps(self, count: int) -> Iterator[Step | None]:
        """Yield about `count` steps; None where a chapter ends and everything is to be compared."""
        left = count
        while left > 0:
            self._begin_chapter()
            for _ in range(min(CHAPTER, left)):
                yield self._next()
            left -= CHAPTER
            yield None
            yield from self._take_down()
            yield None

    @property
    def topics(self) -> list[str]:
        """Every topic that may be known now."""
        names = [f"topic-{number}" for number in range(TOPICS)] + [broker.name for broker in self._brokers]
        return [*dict.fromkeys(names), "no-such-topic", "TBW102"]

    @property
    def brokers(self) -> list[Broker]:
        """Every broker that may be known now."""
        return self._brokers

    @property
    def _present(self) -> list[Broker]:
        """Brokers whose id no other has taken: of the others Java remembers things (LISTED)."""
        return [broker for broker in self._brokers if not broker.is_displaced]

    def _begin_chapter(self) -> None:
        self._chapter += 1
        self._brokers = []
        for group in range(GROUPS):
            acting_master = self._random.choice((None, None, True, False))
            zone = self._random.choice((None, "north", "South"))
            for broker_id in range(IDS):
                cluster = f"cluster-{group % CLUSTERS}"
                address = f"10.{self._chapter % 250}.{group}.{broker_id}:10911"
                name = f"broker-{self._chapter}-{group}"
                self._brokers.append(Broker(cluster, name, broker_id, address, acting_master, zone))

    def _next(self) -> Step:
        choose, weights = zip(*_WEIGHTS, strict=True)
        step: Step = self._random.choices(choose, weights)[0](self)
        if step.way is Way.ASK and step.code < 32_768 and self._random.random() < 0.1:
            step = replace(step, binary=True)
        return step

    def _take_down(self) -> Iterator[Step]:
        for broker in self._brokers:
            yield Step(104, broker.fields(), way=Way.LEAVE)
        for key in TOGGLES:
            yield self._set(key, DEFAULTS.get(key, False))
        for topic in self.topics:
            yield Step(102, {"namespace": KV_SPACES[0], "key": topic})

    # Brokers.

    def _register(self) -> Step:
        broker = self._random.choice(self._brokers)
        self._change(broker)
        return self._registration(broker)

    def _change(self, broker: Broker) -> None:
        """Change a broker's topics or not, with a new version or (a lost update) without one."""
        chance = self._random.random()
        if broker.is_displaced:
            # Java remembers the version of the one who was displaced and would not look at its topics (LISTED).
            self._renew_version(broker)
        if not broker.topics or chance < 0.1:
            broker.topics = {name: self._topic(name) for name in self._some_topics()}
        elif chance < 0.4:
            name = f"topic-{self._random.randrange(TOPICS)}"
            broker.topics[name] = self._topic(name)
        elif chance < 0.45 and len(broker.topics) > 3:
            broker.topics.pop(self._random.choice(sorted(broker.topics)))
        else:
            return
        if not broker.version or self._random.random() < 0.9:
            self._renew_version(broker)

    def _renew_version(self, broker: Broker) -> None:
        self._clock_ms += self._random.randrange(2)
        counter = broker.version.get("counter", 0) + 1
        broker.version = {"counter": counter, "stateVersion": 0, "timestamp": self._clock_ms}

    def _take_id(self, broker: Broker) -> None:
        broker.is_displaced, broker.is_registered = False, True
        for other in self._brokers:
            if other is not broker and (other.name, other.broker_id) == (broker.name, broker.broker_id):
                other.is_displaced, other.is_registered = True, False

    def _registration(self, broker: Broker, way: Way = Way.ASK, lease_ms: int | None = LONG_LEASE_MS) -> Step:
        self._take_id(broker)
        version = self._random.choice(VERSIONS)
        ext_fields = broker.fields(haServerAddr=broker.address.replace("10911", "10912"))
        if broker.acting_master is not None:
            ext_fields["enableActingMaster"] = _text(broker.acting_master)
        if broker.zone is not None:
            ext_fields["__ZONE_NAME"] = broker.zone
        if lease_ms is not None:
            ext_fields["heartbeatTimeoutMillis"] = str(lease_ms)
        body = self._body(broker, version, ext_fields)
        if self._random.random() < 0.5:
            ext_fields["bodyCrc32"] = str(zlib.crc32(body) & 0x7FFFFFFF)
        return Step(103, ext_fields, body, version, way=way)

    def _body(self, broker: Broker, version: int, ext_fields: dict[str, str]) -> bytes:
        servers = self._random.choice(([], [], ["10.9.9.9:1"], ["10.9.9.9:1", "10.9.9.9:2"], None))
        # The compressed form loses the flag, and then "the first queues" of a topic would differ by hash order.
        if self._random.random() < 0.2 and not FLAGS.keys() & broker.topics.keys():
            ext_fields["compressed"] = "true"
            return _compressed(broker, version, servers or [])
        wrapper: dict[str, Any] = {"dataVersion": broker.version, "topicConfigTable": broker.topics}
        if version >= 413:
            wrapper |= {"mappingDataVersion": broker.version, "topicQueueMappingDetailMap": {}}
            wrapper |= {"topicQueueMappingInfoMap": {}}
        document: dict[str, Any] = {"topicConfigSerializeWrapper": wrapper}
        if servers is not None:
            document["filterServerList"] = servers
        return _json(document)

    def _register_as_before_filter_servers(self) -> Step:
        broker = self._random.choice(self._present)
        self._change(broker)
        self._take_id(broker)
        body = _json({"dataVersion": broker.version, "topicConfigTable": broker.topics})
        ext_fields = broker.fields(haServerAddr="10.0.0.1:10912", heartbeatTimeoutMillis=str(LONG_LEASE_MS))
        broker.acting_master, broker.zone = None, None
        return Step(103, ext_fields, body, OLD_VERSION)

    def _register_damaged(self) -> Step:
        states = [(broker.is_displaced, broker.is_registered) for broker in self._brokers]
        step = self._register()
        for broker, before in zip(self._brokers, states, strict=True):
            broker.is_displaced, broker.is_registered = before
        kind = self._random.randrange(4)
        if kind == 0:
            return replace(step, ext_fields={**step.ext_fields, "bodyCrc32": "12345"})
        if kind == 1:
            fields = {name: text for name, text in step.ext_fields.items() if name not in ("compressed", "bodyCrc32")}
            return replace(step, ext_fields=fields, body=b"{not json", way=Way.CODE)
        if kind == 2:
            fields = {name: text for name, text in step.ext_fields.items() if name != "brokerId"}
            return replace(step, ext_fields=fields, way=Way.CODE)
        fields = {name: text for name, text in step.ext_fields.items() if name not in ("compressed", "bodyCrc32")}
        name = f"single-{self._chapter}-{self._random.randrange(3)}"
        fields |= {"brokerName": name, "brokerAddr": f"10.99.0.{self._random.randrange(3)}:1"}
        table = {"only-topic": self._topic("only-topic")}
        wrapper = {"dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1}, "topicConfigTable": table}
        body = _json({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})
        return replace(step, ext_fields=fields, body=body)

    def _switch_roles(self) -> Step:
        """A slave comes back with its master's id, or a master as a slave: the same address under another id."""
        broker = self._random.choice(self._brokers)
        broker.broker_id = self._random.randrange(IDS)
        broker.version = {}
        self._change(broker)
        broker.version = {"counter": 1, "stateVersion": 0, "timestamp": self._clock_ms + self._random.randrange(1000)}
        if self._random.random() < 0.3:
            broker.version["stateVersion"] = self._random.randrange(3)
        return self._registration(broker)

    def _unregister(self) -> Step:
        # A stray request in a group with an acting master takes write permissions away in Java (LISTED).
        acting = {broker.name for broker in self._brokers if broker.acting_master}
        harmless = [broker for broker in self._brokers if broker.is_registered or broker.name not in acting]
        broker = self._random.choice(harmless or self._brokers)
        broker.is_registered = False
        return Step(104, broker.fields(), way=Way.LEAVE)

    def _vanish(self) -> Step:
        broker = self._random.choice(self._brokers)
        self._change(broker)
        step = self._registration(broker, Way.VANISH)
        broker.is_registered = False
        return step

    def _expire(self) -> Step:
        broker = self._random.choice(self._brokers)
        self._change(broker)
        step = self._registration(broker, Way.EXPIRE, lease_ms=1)
        broker.is_registered = False
        return step

    def _data_version(self) -> Step:
        broker = self._random.choice(self._present)
        version = broker.version if self._random.random() < 0.7 else {"counter": 9, "stateVersion": 0, "timestamp": 9}
        body = _json(version) if version and self._random.random() < 0.9 else b""
        return Step(322, broker.fields(), body)

    def _heartbeat(self) -> Step:
        return Step(904, self._random.choice(self._brokers).fields())

    # Questions.

    def _route(self) -> Step:
        ext_fields = {"topic": self._random.choice(self.topics)}
        if self._random.random() < 0.2:
            ext_fields["acceptStandardJsonOnly"] = _text(self._random.random() < 0.5)
        if self._random.random() < 0.15:
            ext_fields["__ZONE_MODE"] = _text(self._random.random() < 0.8)
            ext_fields["__ZONE_NAME"] = self._random.choice(("north", "NORTH", "south", "nowhere"))
        return Step(105, ext_fields, version=self._random.choice(VERSIONS))

    def _clusters(self) -> Step:
        return Step(106, version=self._random.choice(VERSIONS))

    def _lists(self) -> Step:
        code = self._random.choice((206, 311, 312, 313))
        return Step(code)

    def _system_topics(self) -> Step:
        return Step(304)

    def _topics_of_cluster(self) -> Step:
        return Step(224, {"cluster": self._random.choice(("cluster-0", "cluster-1", "no-such-cluster"))})

    def _member_group(self) -> Step:
        broker = self._random.choice(self._brokers)
        name = broker.name if self._random.random() < 0.8 else "no-such-broker"
        return Step(901, {"clusterName": broker.cluster, "brokerName": name})

    # Operators.

    def _write_perm(self) -> Step:
        broker = self._random.choice(self._brokers)
        name = broker.name if self._random.random() < 0.9 else "no-such-broker"
        return Step(self._random.choice((205, 327)), {"brokerName": name})

    def _delete_topic(self) -> Step:
        ext_fields = {"topic": self._random.choice(self.topics)}
        if self._random.random() < 0.5:
            ext_fields["clusterName"] = self._random.choice(("cluster-0", "cluster-1", "no-such-cluster"))
        return Step(216, ext_fields)

    def _register_topic(self) -> Step:
        topic = f"topic-{self._random.randrange(TOPICS)}"
        # One broker name at a time: of several, Java applies those before the first unknown one (LISTED).
        names = [self._random.choice(self._brokers).name]
        if self._random.random() < 0.2:
            names.insert(0, "no-such-broker")
        queues = [_queue(name, self._topic(topic)) for name in names]
        return Step(217, {"topic": topic}, _json({"queueDatas": queues, "brokerDatas": [], "filterServerTable": {}}))

    def _key_value(self) -> Step:
        ext_fields = {"namespace": self._random.choice(KV_SPACES), "key": self._random.choice(self.topics)}
        code = self._random.choice((100, 100, 101, 101, 102))
        if code == 100:
            ext_fields["value"] = f'broker-a:{self._random.randrange(1, 9)};Grüße "{{}}"'
        return Step(code, ext_fields)

    def _key_values(self) -> Step:
        return Step(219, {"namespace": self._random.choice((*KV_SPACES, "no-such-space"))})

    def _toggle(self) -> Step:
        key = self._random.choice(TOGGLES)
        return self._set(key, self._random.random() < 0.5)

    def _set(self, key: str, value: bool) -> Step:
        return Step(318, body=f"{key}={_text(value)}\n".encode())

    def _forbidden_setting(self) -> Step:
        key = self._random.choice(("kvConfigPath", "configStorePath", "configBlackList", "rocketmqHome"))
        return Step(318, body=f"waitSecondsForService=45\n{key}=/tmp/elsewhere\n".encode())

    def _empty_settings(self) -> Step:
        return Step(318, body=self._random.choice((b"", b"noSuchKey=1\n")))

    def _unknown(self) -> Step:
        return Step(self._random.choice((7, 999, 30_500, 99_999)))

    # Values.

    def _some_topics(self) -> list[str]:
        names = [f"topic-{number}" for number in range(TOPICS)]
        return self._random.sample(names, self._random.randrange(2, 8))

    def _topic(self, name: str) -> dict[str, Any]:
        return {
            "topicName": name,
            "readQueueNums": self._random.randrange(1, 9),
            "writeQueueNums": self._random.randrange(1, 9),
            "perm": self._random.choice((6, 6, 6, 4, 2, 7)),
            "topicFilterType": "SINGLE_TAG",
            # Lists by flag look at a topic's "first" queues, first in a hash table: so all brokers say the same.
            "topicSysFlag": FLAGS.get(name, 0),
            "order": False,
            "attributes": {},
        }


_WEIGHTS: list[tuple[Callable[[Stream], Step], float]] = [
    (Stream._register, 28),
    (Stream._register_as_before_filter_servers, 1),
    (Stream._register_damaged, 2),
    (Stream._switch_roles, 1.5),
    (Stream._unregister, 5),
    (Stream._data_version, 5),
    (Stream._heartbeat, 4),
    (Stream._route, 24),
    (Stream._clusters, 4),
    (Stream._lists, 5),
    (Stream._system_topics, 2),
    (Stream._topics_of_cluster, 2),
    (Stream._member_group, 4),
    (Stream._write_perm, 4),
    (Stream._delete_topic, 2),
    (Stream._register_topic, 3),
    (Stream._key_value, 8),
    (Stream._key_values, 2),
    (Stream._toggle, 1),
    (Stream._forbidden_setting, 0.5),
    (Stream._empty_settings, 0.5),
    (Stream._unknown, 0.5),
    (Stream._vanish, 0.3),
    (Stream._expire, 0.1),
]


def _queue(broker_name: str, topic: dict[str, Any]) -> dict[str, Any]:
    return {
        "brokerName": broker_name,
        "perm": topic["perm"],
        "readQueueNums": topic["readQueueNums"],
        "writeQueueNums": topic["writeQueueNums"],
        "topicSysFlag": topic["topicSysFlag"],
    }


def _compressed(broker: Broker, version: int, servers: list[str]) -> bytes:
    def piece(text: str | bytes) -> bytes:
        data = text.encode() if isinstance(text, str) else text
        return pack(">i", len(data)) + data

    parts = [piece(_json(broker.version)), pack(">i", len(broker.topics))]
    for name, topic in broker.topics.items():
        line = f"{name} {topic['readQueueNums']} {topic['writeQueueNums']} {topic['perm']} SINGLE_TAG"
        parts.append(piece(line + (" {}" if version >= 413 else "")))
    parts.append(piece(_json(servers)))
    if version >= 413:
        parts.append(pack(">i", 0))
    return zlib.compress(b"".join(parts), 9)


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _text(value: bool) -> str:
    return "true" if value else "false"
