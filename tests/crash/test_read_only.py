"""Stores that take no changes: a start is refused with a sentence, a running broker reads on, and nothing acknowledged goes."""

import os
import subprocess
from contextlib import asynccontextmanager

import pytest

from crash.broker_process import Wire
from machine import give_up
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.errors import StoreError
from orbitmq.net.pool import ConnectionPool


@asynccontextmanager
async def running(store):
    config = BrokerConfig(
        broker_name="a", bind_address="127.0.0.1", listen_port=0, store_path_root_dir=store, flush_disk_type="SYNC_FLUSH",
        mapped_file_size_commit_log=65_536, mapped_file_size_consume_queue=2_000, max_hash_slot_num=70, max_index_num=80,
    )  # fmt: skip
    broker, pool = Broker(config), ConnectionPool()
    await broker.start()
    try:
        yield Wire(pool, broker.address)
    finally:
        await pool.close()
        await broker.stop()


@pytest.fixture
def attribute(tmp_path):
    """Give every directory of a store an attribute of ext4, or take it away."""

    def change(sign):
        directories = [directory for directory, _, _ in os.walk(tmp_path / "store")]
        return subprocess.run(["chattr", f"{sign}i", *directories], capture_output=True, check=False)

    (tmp_path / "store").mkdir()
    try:
        if change("+").returncode:
            give_up("chattr +i is not allowed here")
        change("-")
        yield change
    finally:
        change("-")


BODIES = [b"%d" % number for number in range(5)]


async def test_a_start_on_a_read_only_file_system_says_so_and_harms_nothing(small_disk):
    async with running(small_disk / "store") as wire:
        assert await wire.create("orders") == 0
        assert await wire.send_all("orders", BODIES) == BODIES
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    try:
        with pytest.raises(StoreError, match=r"store cannot be opened: .*Read-only file system"):
            async with running(small_disk / "store"):
                pass
    finally:
        subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    async with running(small_disk / "store") as wire:
        assert await wire.read("orders") == BODIES


async def test_a_start_in_immutable_directories_says_so_and_harms_nothing(tmp_path, attribute):
    store = tmp_path / "store"
    async with running(store) as wire:
        assert await wire.create("orders") == 0
        assert await wire.send_all("orders", BODIES) == BODIES
    attribute("+")
    with pytest.raises(StoreError, match=r"store.* cannot be .*Operation not permitted"):
        async with running(store):
            pass
    attribute("-")
    async with running(store) as wire:
        assert await wire.read("orders") == BODIES


async def test_a_broker_whose_directories_become_immutable_says_so_and_keeps_what_it_acknowledged(tmp_path, attribute):
    store, acknowledged, refused = tmp_path / "store", [], []
    async with running(store) as wire:
        assert await wire.create("orders") == 0
        assert await wire.send_all("orders", BODIES) == BODIES
        attribute("+")
        try:
            assert await wire.create("more") == 14
            while not refused:  # a file of the log is full, and the next one cannot be made
                body = b"%d" % len(acknowledged) + bytes(4_000)
                (acknowledged if await wire.send("orders", body) == 0 else refused).append(body)
            assert await wire.read("orders") == BODIES + acknowledged
        finally:
            attribute("-")
    async with running(store) as wire:
        assert (await wire.read("orders"))[: len(BODIES + acknowledged)] == BODIES + acknowledged
        assert await wire.send("orders", b"again") == 0
