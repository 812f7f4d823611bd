"""Random streams of requests that make a NameServer remember, and that change what it has remembered.

A small world (few names, addresses and topics, many repetitions), so that most requests were seen before and each change
concerns something remembered. Pure: a stream follows from its seed. Each chapter leaves some kinds of steps out: what they
hide comes to light then.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from struct import pack
from typing import Any

CLUSTERS, NAMES = ("c1", "c2"), ("a", "b", "c")
IDS = ((0, 0, 1, 2), (0, 1, 2), (1, 2))
"""One of these for each chapter: in the last there are no masters."""
TOPICS = tuple(f"t{number}" for number in range(6))
SHARED_ADDRESSES = ("s-0:1", "s-1:1", "s-2:1", "s-3:1")
PLAYERS, CLIENTS = 6, 10
"""The connections below PLAYERS are the brokers' own; those above belong to clients, operators and strangers."""
ORDER = "ORDER_TOPIC_CONFIG"
BEFORE_FILTER_SERVERS, BEFORE_MAPPINGS, LATEST = 36, 393, 479
SWITCHES = (
    "deleteTopicWithBrokerRegistration",
    "supportActingMaster",
    "orderMessageEnable",
    "returnOrderTopicConfigToBroker",
    "enableTopicList",
    "enableAllTopicList",
    "needWaitForService",
)
CHAPTER = 2_000
"""Steps of a chapter: the next one begins with empty servers, so that one difference hides no other."""
CHECK_EVERY = 400
"""Steps after which everything is asked for and compared."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request through one of the connections."""

    client: int
    code: int
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    version: int = LATEST
    is_binary: bool = False


@dataclass(frozen=True, slots=True)
class AskTogether:
    """Several requests in one write."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class HangUp:
    """A connection ends; its next request opens it again."""

    client: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Time passes, and then leases are looked at."""

    by_ms: int


Step = Ask | AskTogether | HangUp | Wait


@dataclass
class Player:
    """A broker as it is going to say of itself."""

    client: int
    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str = "ha-0:1"
    acting_master: bool | None = None
    zone: str | None = None
    lease_ms: int | None = None
    filter_servers: list[str] | None = field(default_factory=list)
    mapping: tuple[str, str] | None = None
    form: str = "json"
    topics: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    counter: int = 1
    state_version: int = 0

    def registration(self) -> Ask:
        """Say everything: equal words while nothing has changed."""
        fields = {**self.fields(), "haServerAddr": self.ha_address}
        if self.acting_master is not None:
            fields["enableActingMaster"] = _text(self.acting_master)
        if self.zone is not None:
            fields["__ZONE_NAME"] = self.zone
        if self.lease_ms is not None:
            fields["heartbeatTimeoutMillis"] = str(self.lease_ms)
        body = self._compressed() if self.form == "compressed" else self._plain()
        fields["compressed"] = _text(self.form == "compressed")
        if self.form != "without checksum":
            fields["bodyCrc32"] = str(zlib.crc32(body) & 0x7FFFFFFF)
        version = {"old": BEFORE_FILTER_SERVERS, "before mappings": BEFORE_MAPPINGS}.get(self.form, LATEST)
        return Ask(self.client, 103, fields, body, version, is_binary=self.form == "binary")

    def fields(self) -> dict[str, str]:
        """The header fields that name the broker."""
        return {
            "brokerName": self.name,
            "brokerAddr": self.address,
            "clusterName": self.cluster,
            "brokerId": str(self.broker_id),
        }

    @property
    def version(self) -> dict[str, int]:
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": 0}

    def _plain(self) -> bytes:
        wrapper: dict[str, Any] = {"dataVersion": self.version}
        if self.form not in ("old", "before mappings"):
            wrapper["mappingDataVersion"] = self.version
        wrapper["topicConfigTable"] = {topic: _topic(topic, *numbers) for topic, numbers in self.topics.items()}
        if self.form == "old":
            return _json(wrapper)
        if self.form != "before mappings":
            wrapper |= {"topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": self._mappings()}
        return _json({"filterServerList": self.filter_servers, "topicConfigSerializeWrapper": wrapper})

    def _mappings(self) -> dict[str, Any]:
        if self.mapping is None:
            return {}
        topic, name = self.mapping
        return {topic: {"topic": topic, "bname": name, "epoch": self.counter, "totalQueues": 1, "currIdMap": {"0": 0}}}

    def _compressed(self) -> bytes:
        pieces = [_piece(_json(self.version)), pack(">i", len(self.topics))]
        for topic, numbers in self.topics.items():
            pieces.append(_piece(f"{topic} {' '.join(map(str, numbers))} SINGLE_TAG {{}}".encode()))
        pieces += _piece(_json(self.filter_servers or [])), pack(">i", 0)
        return zlib.compress(b"".join(pieces))


class Stream:
    """Yields the steps of one chapter of a seed: a small world of its own.

    Args:
        only: kinds of steps to take part, by name; those that the chapter chooses when left out.
    """

    def __init__(self, seed: int, chapter: int = 0, only: frozenset[str] = frozenset()) -> None:
        self._random = Random(f"{seed}/{chapter}")
        optional = [name for name in KINDS if name not in _ALWAYS]
        chosen = {name for name in optional if self._random.random() < 0.6}
        self.kinds = sorted(_ALWAYS | (only & KINDS.keys() if only else chosen))
        self._weights = [KINDS[name][1] for name in self.kinds]
        self._shares = "sharing" in only or (not only and self._random.random() < 0.4)
        self._ids = self._random.choice(IDS)
        self._is_of_one_mind = self._random.random() < 0.7
        self._players = [self._player(number) for number in range(PLAYERS)]

    def steps(self, count: int) -> Iterator[Step]:
        """Yield that many steps, and after some hundreds each a look at everything."""
        for number in range(1, count + 1):
            kind = self._random.choices(self.kinds, self._weights)[0]
            yield KINDS[kind][0](self)
            if number % CHECK_EVERY == 0 or number == count:
                yield from everything()

    def _player(self, number: int) -> Player:
        choose = self._random.choice
        name = choose(NAMES)
        cluster = choose(CLUSTERS) if self._shares else CLUSTERS[NAMES.index(name) % 2]
        address = choose(SHARED_ADDRESSES) if self._shares else f"p-{number}:1"
        topics = dict.fromkeys(self._random.sample(TOPICS, 3), (4, 4, 6))
        return Player(number, cluster, name, choose(self._ids), address, topics=topics)

    # Brokers.

    def _any(self) -> Player:
        return self._random.choice(self._players)

    def _repeat(self) -> Step:
        return self._any().registration()

    def _repeat_elsewhere(self) -> Step:
        ask = self._any().registration()
        return Ask(self._client(), ask.code, ask.fields, ask.body, ask.version, ask.is_binary)

    def _renew_version(self) -> Step:
        player = self._any()
        player.counter += 1
        return player.registration()

    def _change_topics(self) -> Step:
        player, random = self._any(), self._random
        topic = random.choice(TOPICS)
        if topic in player.topics and len(player.topics) > 1 and random.random() < 0.4:
            del player.topics[topic]
        else:
            player.topics[topic] = random.randrange(1, 4), 4, random.choice((6, 6, 4, 2))
        player.counter += random.random() < 0.85
        return player.registration()

    def _change_field(self, name: str, *values: Any) -> Step:
        player = self._any()
        setattr(player, name, self._random.choice(values))
        player.counter += self._random.random() < 0.3
        return player.registration()

    def _change_ha_address(self) -> Step:
        return self._change_field("ha_address", "ha-0:1", "ha-1:1")

    def _change_acting_master(self) -> Step:
        return self._change_group("acting_master", None, False, True)

    def _change_zone(self) -> Step:
        return self._change_group("zone", None, "north", "South")

    def _change_group(self, name: str, *values: Any) -> Step:
        """Change what brokers of one name agree on, as a rule: each registration says it for all of them."""
        player, value = self._any(), self._random.choice(values)
        for other in self._players:
            if other is player or (self._is_of_one_mind and other.name == player.name):
                setattr(other, name, value)
        return player.registration()

    def _change_lease(self) -> Step:
        return self._change_field("lease_ms", None, 1_000, 40_000)

    def _change_filter_servers(self) -> Step:
        return self._change_field("filter_servers", [], ["f-0:1"], ["f-0:1", "f-1:1"], None)

    def _change_mapping(self) -> Step:
        mappings = [(topic, name) for topic in TOPICS[:3] for name in NAMES]
        return self._change_field("mapping", None, *mappings)

    def _change_form(self) -> Step:
        return self._change_field(
            "form", "json", "json", "compressed", "without checksum", "old", "before mappings", "binary"
        )

    def _change_id(self) -> Step:
        return self._change_field("broker_id", *self._ids)

    def _change_state_version(self) -> Step:
        return self._change_field("state_version", 0, 1, 2)

    def _change_name(self) -> Step:
        player = self._any()
        player.name = self._random.choice(NAMES)
        if not self._shares:
            player.cluster = CLUSTERS[NAMES.index(player.name) % 2]
        return player.registration()

    def _leave(self) -> Step:
        player = self._any()
        return Ask(player.client if self._random.random() < 0.7 else self._client(), 104, player.fields())

    def _ask_version(self) -> Step:
        player = self._any()
        client = player.client if self._random.random() < 0.7 else self._client()
        return Ask(client, 322, player.fields(), _json(player.version))

    def _heartbeat(self) -> Step:
        player = self._any()
        return Ask(player.client if self._random.random() < 0.7 else self._client(), 904, player.fields())

    # Clients.

    def _client(self) -> int:
        return self._random.randrange(PLAYERS, CLIENTS)

    def _route(self) -> Ask:
        return route(self._client(), self._random.choice(TOPICS), self._random.choice(ROUTE_FORMS))

    def _routes(self) -> Step:
        client = self._client()
        count = self._random.randrange(2, 9)
        asks = [self._route() for _ in range(count)]
        return AskTogether(tuple(Ask(client, ask.code, ask.fields, ask.body, ask.version) for ask in asks))

    def _list(self) -> Step:
        code, fields = self._random.choice(LISTS)
        return Ask(self._client(), code, fields)

    # Operators.

    def _permit(self) -> Step:
        return Ask(self._client(), self._random.choice((205, 327)), {"brokerName": self._random.choice(NAMES)})

    def _delete_topic(self) -> Step:
        fields = {"topic": self._random.choice(TOPICS)}
        if self._random.random() < 0.5:
            fields["clusterName"] = self._random.choice(CLUSTERS)
        return Ask(self._client(), 216, fields)

    def _register_topic(self) -> Step:
        queue = {"brokerName": self._random.choice(NAMES), "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
        body = _json({"queueDatas": [{**queue, "topicSysFlag": 0}], "brokerDatas": []})
        return Ask(self._client(), 217, {"topic": self._random.choice(TOPICS)}, body)

    def _change_order(self) -> Step:
        fields = {"namespace": ORDER, "key": self._random.choice(TOPICS)}
        if self._random.random() < 0.3:
            return Ask(self._client(), 102, fields)
        return Ask(self._client(), 100, {**fields, "value": f"a:{self._random.randrange(1, 4)}"})

    def _switch(self) -> Step:
        key = self._random.choice(SWITCHES)
        return Ask(self._client(), 318, body=f"{key}={_text(self._random.random() < 0.5)}\n".encode())

    # Time and connections.

    def _wait(self) -> Step:
        return Wait(self._random.choice((10, 700, 1_500, 20_000, 50_000, 121_000)))

    def _hang_up(self) -> Step:
        return HangUp(self._random.randrange(CLIENTS))


ROUTE_FORMS: tuple[tuple[dict[str, str], int], ...] = (
    ({}, LATEST),
    ({}, BEFORE_MAPPINGS),
    ({"acceptStandardJsonOnly": "true"}, BEFORE_MAPPINGS),
    ({"__ZONE_MODE": "true", "__ZONE_NAME": "north"}, LATEST),
    ({"__ZONE_MODE": "true", "__ZONE_NAME": "SOUTH"}, LATEST),
)
"""What a client's questions for a route have besides the topic, and its version."""
LISTS: tuple[tuple[int, dict[str, str]], ...] = (
    (106, {}),
    (206, {}),
    (304, {}),
    (311, {}),
    (312, {}),
    (313, {}),
    *((224, {"cluster": cluster}) for cluster in CLUSTERS),
    *((901, {"clusterName": CLUSTERS[0], "brokerName": name}) for name in NAMES),
    (219, {"namespace": ORDER}),
    (101, {"namespace": ORDER, "key": TOPICS[0]}),
)
"""Questions for lists."""

KINDS: dict[str, tuple[Callable[[Stream], Step], float]] = {
    "repeat": (Stream._repeat, 25),
    "repeat elsewhere": (Stream._repeat_elsewhere, 2),
    "version": (Stream._renew_version, 6),
    "topics": (Stream._change_topics, 6),
    "ha address": (Stream._change_ha_address, 2),
    "acting master": (Stream._change_acting_master, 2),
    "zone": (Stream._change_zone, 1),
    "lease": (Stream._change_lease, 1),
    "filter servers": (Stream._change_filter_servers, 2),
    "mapping": (Stream._change_mapping, 2),
    "form": (Stream._change_form, 2),
    "id": (Stream._change_id, 1),
    "state version": (Stream._change_state_version, 1),
    "name": (Stream._change_name, 0.5),
    "leave": (Stream._leave, 2),
    "data version": (Stream._ask_version, 4),
    "heartbeat": (Stream._heartbeat, 3),
    "route": (Stream._route, 25),
    "routes": (Stream._routes, 6),
    "list": (Stream._list, 5),
    "permission": (Stream._permit, 2),
    "delete topic": (Stream._delete_topic, 2),
    "register topic": (Stream._register_topic, 3),
    "order": (Stream._change_order, 2),
    "switch": (Stream._switch, 2),
    "wait": (Stream._wait, 1),
    "hang up": (Stream._hang_up, 1),
}
"""Every kind of step with its weight."""
_ALWAYS = frozenset(("repeat", "version", "route", "routes"))


def everything() -> Iterator[Step]:
    """Yield a look at everything."""
    for topic in TOPICS:
        for form in ROUTE_FORMS:
            yield route(CLIENTS - 1, topic, form)
    for code, fields in LISTS:
        yield Ask(CLIENTS - 1, code, fields)


def route(client: int, topic: str, form: tuple[dict[str, str], int]) -> Ask:
    """Ask for a route; equal words for an equal question."""
    fields, version = form
    return Ask(client, 105, {"topic": topic, **fields}, version=version)


def _topic(topic: str, read_count: int, write_count: int, perm: int) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": perm,
        "readQueueNums": read_count,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": TOPICS.index(topic) % 4,
        "writeQueueNums": write_count,
    }


def _piece(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _text(value: bool) -> str:
    return "true" if value else "false"
