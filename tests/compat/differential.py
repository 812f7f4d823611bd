"""The same random stream of requests to a Java 5.3.3 NameServer and to ours; every answer is compared.

    make proof ARGS="--only compat/nameserver -- --commands 2000 --seed 7"

Differences are zero, or one of `LISTED`, each with the reason why ours is meant to differ.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from compat.stream import DEFAULTS, Step, Stream, Way
from hostile.served import serving
from interop.peers import JavaNameServer, why_unavailable
from orbitmq.address import parse_address
from orbitmq.wire import fastjson
from orbitmq.wire.command import Command, SerializeType, decode_command, encode_command
from orbitmq.wire.frame import FrameDecoder

TIMEOUT_S = 20
DIFFERENCES_SHOWN = 20
SCAN_MS = 50

LISTED = {
    "address-less groups": (
        "Java keeps the cluster and an address-less broker entry of a registration that it refused; ours keeps nothing"
    ),
    "displaced brokers": (
        "when a broker's id is taken by another address, Java keeps the old one's live entry: it answers its 322 from "
        "that and overlooks its topics when it comes back with the same version; ours has forgotten it"
    ),
    "half-applied topic registrations": (
        "Java applies a 217's queues up to the first unknown broker name; ours applies all or nothing"
    ),
    "stray un-registrations": (
        "a 104 of a broker that is not there takes the write permission from the topics of an acting master's group in "
        "Java, even one that an operator has just given; ours changes nothing"
    ),
    "answer form": "Java 5.x answers binary headers with JSON ones; ours mirrors the request, as Java 4.9.4 to 4.9.8 do",
}
SENTINEL = Step(
    103,
    {
        "brokerName": "sentinel",
        "brokerAddr": "10.255.0.1:10911",
        "clusterName": "sentinels",
        "brokerId": "0",
        "haServerAddr": "10.255.0.1:10912",
    },
)
UNORDERED = {"queueDatas", "brokerDatas", "topicList", "clusterAddrTable"}


class Link:
    """A connection that asks one question at a time."""

    def __init__(self, address: str) -> None:
        import socket

        self._socket = socket.create_connection(parse_address(address), TIMEOUT_S)
        self._decoder = FrameDecoder()
        self._opaque = 0

    def ask(self, step: Step) -> Command:
        """Send a step and return the answer."""
        self._opaque += 1
        command = Command(
            step.code,
            self._opaque,
            ext_fields=step.ext_fields,
            body=step.body,
            language="JAVA",
            version=step.version,
            serialize_type=SerializeType.ROCKETMQ if step.binary else SerializeType.JSON,
        )
        self._socket.sendall(encode_command(command))
        frames = self._decoder.feed(self._socket.recv(1 << 20))
        while not frames:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError(f"closed instead of answering {step}")
            frames = self._decoder.feed(data)
        answer = decode_command(frames[0])
        assert answer.opaque == self._opaque, "an answer to another question"
        assert answer.is_response
        return answer

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


class Comparison:
    """Both servers, asked the same."""

    def __init__(self, java: str, ours: str) -> None:
        self._addresses = (java, ours)
        self._links = (Link(java), Link(ours))
        self.counts: Counter[int] = Counter()
        self.differences: list[str] = []

    def close(self) -> None:
        """End both connections."""
        for link in self._links:
            link.close()

    def run(self, stream: Stream, count: int) -> None:
        """Carry out the stream's steps and note every difference."""
        for step in stream.steps(count):
            if step is None:
                self._compare_everything(stream)
            else:
                self.take(step)
            if len(self.differences) >= DIFFERENCES_SHOWN:
                return

    def take(self, step: Step) -> None:
        """Carry out one step on both."""
        if step.way in (Way.VANISH, Way.EXPIRE):
            self._register_and_lose(step)
            return
        java, ours = (link.ask(step) for link in self._links)
        self._note(step, java, ours)
        if step.way is Way.LEAVE:
            self._settle()

    def _note(self, step: Step, java: Command, ours: Command) -> None:
        self.counts[step.code] += 1
        if step.way is Way.CODE:
            theirs, mine = java.code == 0, ours.code == 0
            if theirs != mine:
                self.differences.append(
                    f"{step}\n  Java {java.code} {java.remark!r}\n  ours {ours.code} {ours.remark!r}"
                )
            return
        theirs_value, mine_value = normalise(step, java), normalise(step, ours)
        if theirs_value != mine_value:
            self.differences.append("\n".join((str(step), *where_they_differ(theirs_value, mine_value, "answer"))))

    def _register_and_lose(self, step: Step) -> None:
        """A broker registers on a connection of its own and is gone: the connection closes, or nothing more comes."""
        links = [Link(address) for address in self._addresses]
        java, ours = (link.ask(replace(step, way=Way.ASK)) for link in links)
        self._note(replace(step, way=Way.ASK), java, ours)
        if step.way is Way.VANISH:
            for link in links:
                link.close()
        if java.code == 0:
            self._wait_until_gone(step)
        for link in links:
            link.close()
        self._settle()

    def _settle(self) -> None:
        """Wait until Java has carried out what it queued: it takes brokers out one after another, a moment later.

        A broker that is registered again before that would be taken out by its former self's request
        (apache/rocketmq#11043), which ours does not repeat.
        """
        for link in self._links:
            link.ask(SENTINEL)
            link.ask(replace(SENTINEL, code=104))
        self._wait_until_gone(SENTINEL)

    def _wait_until_gone(self, step: Step) -> None:
        fields = step.ext_fields
        question = Step(901, {"clusterName": fields["clusterName"], "brokerName": fields["brokerName"]})
        address = f'"{fields["brokerAddr"]}"'.encode()
        deadline = time.monotonic() + TIMEOUT_S
        for link, name in zip(self._links, ("Java's", "our"), strict=True):
            while address in link.ask(question).body:
                if time.monotonic() > deadline:
                    self.differences.append(f"{step}\n  the broker did not leave {name} NameServer")
                    return

    def _compare_everything(self, stream: Stream) -> None:
        for topic in stream.topics:
            self.take(Step(105, {"topic": topic}))
        for code in (106, 206, 304):
            self.take(Step(code))
        for broker in stream.brokers:
            self.take(Step(901, {"clusterName": broker.cluster, "brokerName": broker.name}))
        java, ours = (_settings(link.ask(Step(319)).body) for link in self._links)
        if java != ours:
            self.differences.append(f"settings\n  Java {java}\n  ours {ours}")


def normalise(step: Step, answer: Command) -> tuple[Any, ...]:
    """Return what has to be equal: code, remark, fields, and the body's meaning without the order of sets."""
    fields = {name: text for name, text in (answer.ext_fields or {}).items() if text}
    body = sort_sets(fastjson.loads(answer.body)) if answer.body else None
    if step.code in (106, 304) and isinstance(body, dict):
        body = without_empty_groups(step.code, body)
    remark = answer.remark
    if remark == "not set any response code":  # Java leaves its default there, on success as well
        remark = None
    return answer.code, remark, fields, body


def sort_sets(value: Any, name: str = "") -> Any:
    """Sort what Java takes out of hash tables."""
    if isinstance(value, dict):
        return {key: sort_sets(item, "topicList" if name == "clusterAddrTable" else key) for key, item in value.items()}
    if isinstance(value, list):
        items = [sort_sets(item) for item in value]
        return sorted(items, key=_text) if name in UNORDERED else items
    return value


def where_they_differ(theirs: Any, mine: Any, path: str = "") -> list[str]:
    """Name the places where two answers differ, each with both values."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        names = [name for name in {**theirs, **mine} if theirs.get(name) != mine.get(name)]
        return [
            line for name in names for line in where_they_differ(theirs.get(name), mine.get(name), f"{path}.{name}")
        ]
    if isinstance(theirs, list | tuple) and isinstance(mine, list | tuple) and len(theirs) == len(mine):
        pairs = [(place, *pair) for place, pair in enumerate(zip(theirs, mine, strict=True)) if pair[0] != pair[1]]
        return [line for place, a, b in pairs for line in where_they_differ(a, b, f"{path}[{_name(a, place)}]")]
    return [f"  {path}: Java {theirs!r}, ours {mine!r}"]


def _name(item: Any, place: int) -> object:
    return item.get("brokerName", place) if isinstance(item, dict) else place


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def without_empty_groups(code: int, body: dict[str, Any]) -> dict[str, Any]:
    """Leave out what Java keeps of refused registrations (LISTED, "address-less groups")."""
    if code == 304:
        topics = [topic for topic in body.get("topicList", []) if not topic.startswith(("single-", "cluster-"))]
        body = {**body, "topicList": topics}
        body.pop("brokerAddr", None)  # any broker's: whichever comes first out of a hash table
        return body
    table = {name: broker for name, broker in body["brokerAddrTable"].items() if broker["brokerAddrs"]}
    clusters = {
        cluster: [name for name in names if name in table] for cluster, names in body["clusterAddrTable"].items()
    }
    return {
        "brokerAddrTable": table,
        "clusterAddrTable": {cluster: names for cluster, names in clusters.items() if names},
    }


def _settings(body: bytes) -> dict[str, str]:
    lines = (line.partition("=") for line in body.decode().splitlines())
    wanted = {*DEFAULTS, "orderMessageEnable", "supportActingMaster", "deleteTopicWithBrokerRegistration"}
    return {key: value for key, _, value in lines if key in wanted}


@contextlib.contextmanager
def both_name_servers(home: Path) -> Iterator[tuple[str, str]]:
    """Run Java's NameServer and ours with the same settings; yields their addresses."""
    properties = {"scanNotActiveBrokerInterval": SCAN_MS, "kvConfigPath": home / "java" / "kvConfig.json"}
    with JavaNameServer(home / "java", properties=properties) as java:
        with serving(home / "ours", scan_not_active_broker_interval=SCAN_MS) as ours:
            yield java.address, ours.address


def main() -> None:
    """Compare and print what was done; exit code 1 when there is a difference that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if (reason := why_unavailable()) is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder, both_name_servers(Path(folder)) as (java, ours):
        comparison = Comparison(java, ours)
        comparison.run(Stream(options.seed), options.commands)
        comparison.close()
    print(f"seed {options.seed}: {comparison.counts.total()} requests to each, by code {dict(comparison.counts)}")
    for difference in comparison.differences:
        print(difference)
    print(f"listed by intention: {'; '.join(LISTED.values())}")
    total = comparison.counts.total()
    print(f"{total:,} requests to each, seed {options.seed}: {len(comparison.differences)} differences")
    sys.exit(1 if comparison.differences else 0)


if __name__ == "__main__":
    main()
