"""`orbitmq store …`, called in the process of the tests, on a store that a broker has left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.cli.main import main
from orbitmq.model.topic import TopicConfig
from orbitmq.store import Draft


class Result(NamedTuple):
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line, without its header."""
        return [line.split() for line in self.out.splitlines()[1:]]

    @property
    def named(self) -> set[str]:
        """The files that a check has named, in JSON output."""
        return {row["file"] for row in json.loads(self.out)}


Call = Callable[..., Result]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    def called(*words: object) -> Result:
        capfd.readouterr()
        code = main(["store", *map(str, words)])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Result(int(code), out, err)

    return called


def config_of(root: Path) -> BrokerConfig:
    return BrokerConfig.from_mapping(
        {"mappedFileSizeCommitLog": "65536", "mappedFileSizeConsumeQueue": "320", "listenPort": "0"},
        store_path_root_dir=root,
        bind_address="127.0.0.1",
        broker_name="b",
    )


async def run_broker(root: Path) -> None:
    broker = Broker(config_of(root))
    await broker.start()
    service = broker.service
    for topic in ("orders", "bills"):
        service.tables.topics.update(TopicConfig(topic=topic), 1)
    for group in ("g", "h"):
        service.tables.groups.find(group, 1)
    for number in range(40):
        service.store.append(
            Draft("orders" if number % 3 else "bills", number % 2, b"body %d" % number, b"KEYS\x01k\x02")
        )
    for topic in ("orders", "bills"):
        service.tables.offsets.commit("g", topic, 0, 3, offset_max=9)
    await broker.running.offset_file.save()
    service.tables.offsets.commit("g", "bills", 1, 2, offset_max=9)
    await broker.stop()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with topics, groups and offsets, after an orderly stop."""
    asyncio.run(run_broker(tmp_path / "store"))
    return tmp_path / "store"
