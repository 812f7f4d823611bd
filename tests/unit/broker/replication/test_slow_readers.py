from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq.broker.delivery import young_queues
from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.replication.slow_readers import SlowReaders
from orbitmq.ha.frames import REPORT
from orbitmq.store import Draft
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.bodies.monitoring.replication import SlaveStatus

from ..parts import Serve, memory_store


class Rig:
    """Two messages in a queue, a group, and slaves that have so much of the log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *slaves: int, **group: Any) -> None:
        self.store = memory_store()
        self.size = self.store.append(Draft("t", 0, b"x")).size
        self.store.append(Draft("t", 0, b"x"))
        monkeypatch.setattr(young_queues, "YOUNG_SIZE", self.size)
        groups = GroupConfigs(auto_create_enable=True, count_max=100)
        groups.update(GroupConfig(group="g", **group), 0)
        follow = [SlaveStatus("h:1", acknowledged, 0, True, 0, acknowledged) for acknowledged in slaves]
        self.readers = SlowReaders(self.store, groups, lambda: follow)

    def suggest(self, next_offset: int, group: str = "g") -> int:
        return self.readers.suggest("t", group, 0, next_offset)


def test_who_reads_what_is_old_is_sent_to_a_slave_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, 1_000)
    assert rig.suggest(1) == 1
    assert rig.suggest(2) == 0


def test_a_slave_that_has_not_got_there_yet_serves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Rig(monkeypatch, 0).suggest(1) == 0
    assert Rig(monkeypatch, 0, 1).suggest(1) == 1


def test_without_slaves_everybody_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Rig(monkeypatch).suggest(1) == 0


def test_a_group_says_who_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, 1_000, broker_id=3, which_broker_when_consume_slowly=2)
    assert (rig.suggest(1), rig.suggest(2), rig.suggest(9)) == (2, 3, 3)


def test_a_group_without_settings_stays_with_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Rig(monkeypatch, 1_000).suggest(1, group="other") == 0


async def test_a_pull_says_whom_to_ask_next_if_that_is_enabled(serve: Serve, monkeypatch: Any) -> None:
    monkeypatch.setattr(young_queues, "YOUNG_SIZE", 0)
    for settings, suggested in ({"slave_read_enable": True}, "1"), ({}, "0"):
        async with serve(ha_listen_port=0, **settings) as rig:
            await rig.send()
            await rig.send()
            end = rig.broker.service.store.max_physical_offset
            _, writer = await asyncio.open_connection(*rig.broker.service.address.replication.split(":"))
            writer.write(REPORT.pack(end))
            while not rig.broker.service.slave_listener.slaves:
                await asyncio.sleep(0)
            assert (await rig.pull(count_max=1))[0].ext_fields["suggestWhichBrokerId"] == suggested
            writer.close()
