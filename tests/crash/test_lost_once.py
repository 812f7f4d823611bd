"""Ways in which a broker once destroyed what it had acknowledged, or gave itself away to one client. Over the wire alone.

Each of these was red before its rule stood in docs/explain/durability.md.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from crash.broker_process import BrokerProcess, wire_to
from orbitmq.wire.headers import GetMaxOffset, QueryConsumerOffset, UpdateConsumerOffset

SMALL_QUEUES = {"mappedFileSizeConsumeQueue": 400}
CHECKPOINT_MARGIN_S = 3.5
"""Recovery reads messages again that are younger than this at the checkpoint: they have to be older here."""
WRONG_CHECKSUM = "CLUSTER\x01x\x02__CRC32#\x010123456789\x02"


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def test_a_wrong_property_checksum_of_a_client_costs_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        async with wire_to(broker) as wire:
            assert await wire.create("orders") == 0
            assert await wire.send_raw("orders", b"odd", WRONG_CHECKSUM) == 0
            acknowledged = [b"odd", *await wire.send_all("orders", numbered(500))]
            assert len(acknowledged) == 501
        broker.kill()
        broker.start()
        async with wire_to(broker) as wire:
            assert await wire.read("orders") == acknowledged


@pytest.mark.proof
async def test_a_clean_restart_keeps_a_last_message_with_a_wrong_property_checksum(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        async with wire_to(broker) as wire:
            assert await wire.create("orders") == 0
            assert len(await wire.send_all("orders", numbered(5))) == 5
            assert await wire.send_raw("orders", b"odd", WRONG_CHECKSUM) == 0
        for _ in range(2):
            assert broker.stop() == 0
            broker.start()
        async with wire_to(broker) as wire:
            assert await wire.read("orders") == [*numbered(5), b"odd"]


async def test_a_topic_made_again_costs_no_other_topic_its_messages(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SMALL_QUEUES) as broker:
        async with wire_to(broker) as wire:
            assert await wire.create("again") == await wire.create("bystander") == 0
            await wire.send_all("again", numbered(400))
            known = await wire.send_all("bystander", [b"trusted"])
            await asyncio.sleep(CHECKPOINT_MARGIN_S)
            known += await wire.send_all("bystander", [b"not yet trusted"])
        broker.stop()
        broker.start()
        async with wire_to(broker) as wire:
            await wire.send_all("again", numbered(5, 400))
            assert await wire.delete("again") == await wire.create("again") == 0
            kept = await wire.send_all("again", numbered(5, 1000))
            other = await wire.send_all("bystander", numbered(500))
            assert (len(kept), len(other)) == (5, 500)
        broker.kill()
        broker.start()
        async with wire_to(broker) as wire:
            assert await wire.read("again") == kept
            assert await wire.read("bystander") == [*known, *other]


async def test_deleted_topics_stay_deleted_after_a_crash(tmp_path: Path) -> None:
    topics = [f"gone-{number}" for number in range(20)]
    with BrokerProcess(tmp_path) as broker:
        async with wire_to(broker) as wire:
            for topic in topics:
                assert await wire.create(topic) == 0
                assert await wire.send(topic, b"old") == 0
            for topic in topics:
                assert await wire.delete(topic) == 0
        broker.kill()
        broker.start()
        async with wire_to(broker) as wire:
            left = [path.name for path in broker.store.glob("consumequeue/*")]
            assert not set(left) & set(topics)
            for topic in topics:
                assert await wire.create(topic) == 0
                assert await wire.read(topic) == []


@pytest.mark.proof
async def test_connections_beyond_the_descriptors_take_no_write_from_another(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, descriptors=256) as broker:
        host, port = broker.address.split(":")
        async with wire_to(broker) as wire:
            assert await wire.create("orders", 4) == 0
            idle = await asyncio.gather(
                *[asyncio.open_connection(host, int(port)) for _ in range(300)], return_exceptions=True
            )
            for topic in range(20):
                assert await wire.send(f"new-{topic}", b"in between") == 0
            for connection in idle:
                if not isinstance(connection, BaseException):
                    connection[1].close()
            assert await wire.send("orders", b"afterwards") == 0
        broker.kill()
        broker.start()
        async with wire_to(broker) as wire:
            assert await wire.read("orders") == [b"afterwards"]


@pytest.mark.proof
async def test_delayed_messages_are_not_all_repeated_by_a_crash_under_steady_traffic(tmp_path: Path) -> None:
    """Sixty a second; a crash may repeat what was sent on in its last two seconds."""

    with BrokerProcess(tmp_path) as broker:
        async with wire_to(broker) as wire:
            assert await wire.create("orders") == 0
            for number in range(600):
                assert await wire.send("orders", b"%d" % number, DELAY="1") == 0
                await asyncio.sleep(1 / 60)  # the rate is what is tried here
            before = len(await wire.read("orders"))
        broker.kill()
        broker.start()
        async with wire_to(broker) as wire:
            while len(set(found := await wire.read("orders"))) < 600:
                await asyncio.sleep(0.1)
        assert before > 400
        assert len(found) - 600 <= 120


@pytest.mark.parametrize("is_killed", [True, pytest.param(False, marks=pytest.mark.proof)])
async def test_an_emptied_queue_file_misleads_no_reader(tmp_path: Path, is_killed: bool) -> None:
    with BrokerProcess(tmp_path) as broker:
        async with wire_to(broker) as wire:
            assert await wire.create("orders") == await wire.create("bystander") == 0
            await wire.send_all("orders", numbered(100))
            await wire.send_all("bystander", numbered(1))
            await asyncio.sleep(CHECKPOINT_MARGIN_S)
            await wire.send_all("bystander", numbered(1))
        broker.stop()
        broker.start()
        async with wire_to(broker) as wire:
            await wire.send_all("orders", numbered(5, 100))
            await wire.send_all("bystander", numbered(1))
            assert await wire.create_group("g") == 0
            committed = UpdateConsumerOffset(consumer_group="g", topic="orders", queue_id=0, commit_offset=102)
            assert (await wire.ask(committed)).code == 0
        broker.kill() if is_killed else broker.stop()
        os.truncate(broker.store / "consumequeue" / "orders" / "0" / f"{0:020d}", 0)
        broker.start()
        async with wire_to(broker) as wire:
            assert await wire.read("orders") == numbered(105)
            await wire.send_all("orders", numbered(5, 105))
            assert await wire.read("orders") == numbered(110)
            assert await wire.offset(GetMaxOffset(topic="orders", queue_id=0)) == 110
            if not is_killed:
                asked = QueryConsumerOffset(consumer_group="g", topic="orders", queue_id=0)
                assert await wire.offset(asked) == 102


async def test_a_missing_last_log_file_is_no_start_at_zero(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        async with wire_to(broker) as wire:
            assert await wire.create("orders") == 0
            await wire.send_all("orders", numbered(100))
        assert broker.stop() == 0
        (broker.store / "commitlog" / f"{0:020d}").unlink()
        with pytest.raises(RuntimeError, match="acceptLogEnd"):
            broker.start()


def test_a_removed_lock_file_admits_no_second_broker(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with BrokerProcess(tmp_path) as broker:
        (broker.store / "lock").unlink()
        second = BrokerProcess(tmp_path / "second")
        second.store = broker.store
        with pytest.raises(RuntimeError, match="store"), second:
            pass
