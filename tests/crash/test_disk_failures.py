"""Failing disks: whatever call fails, nothing unsynced is acknowledged and the process goes on reading."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from orbitmq.errors import StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store import Draft, FlushMode, ReadStatus, Store, StoreConfig
from orbitmq.testing.fake_disk import FakeDisk

ROOT = Path("/store")
HOST = Host("127.0.0.1", 1)


def open_store(disk=None, path=ROOT, **changes):
    config = StoreConfig(
        **{"path": path, "segment_size": 2048, "consume_queue_units": 8, "flush": FlushMode.SYNC, **changes}
    )
    return Store.open(config, store_host=HOST, clock=lambda: 1000, disk=disk)


def read_all(store):
    count, offset = 0, store.min_offset("orders", 0)
    while (found := store.read("orders", 0, offset)).status is ReadStatus.FOUND:
        count, offset = count + found.message_count, found.next_offset
    return count


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", ["open", "reserve", "sync", "write"])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_call_fails_nothing_unsynced_is_acknowledged_upstream_2706(operation, number, seed):
    random, disk = Random(seed), FakeDisk()
    store, acknowledged = open_store(disk), 0
    failing_from = random.randrange(40)
    for step in range(60):
        if step == failing_from:
            disk.failures[operation] = OSError(number, os.strerror(number))
        if step == failing_from + 5:
            disk.failures.clear()  # a later success
        try:
            result = store.append(Draft("orders", 0, random.randbytes(200)))
        except StoreUnavailable:
            continue
        answers = []
        store.wait_durable(result.end, answers.append)
        acknowledged += answers == [True]
    assert read_all(store) == acknowledged
    survived = open_store(disk.after_power_cut(random))
    assert read_all(survived) >= acknowledged


def test_after_a_failed_sync_a_restart_writes_the_tail_again():
    disk = FakeDisk()
    store = open_store(disk, flush=FlushMode.ASYNC)
    store.append(Draft("orders", 0, b"never synced"))
    disk.failures["sync"] = OSError(errno.EIO, "Input/output error")
    store.flush()
    store.close()
    again = open_store(disk.after_kill())
    assert read_all(again) == 1
    assert read_all(open_store(again._disk.after_power_cut(Random(1)))) == 1


FILL = """
import sys
from pathlib import Path
from orbitmq.errors import StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig

path = Path(sys.argv[1])
(path / "ballast").write_bytes(bytes(4 << 20))
config = StoreConfig(path=path / "store", segment_size=1 << 30)
store = Store.open(config, store_host=Host("127.0.0.1", 1))
count = 0
try:
    while True:
        store.append(Draft("orders", 0, bytes(100_000)))
        count += 1
except StoreUnavailable as error:
    assert "no space left on the disk" in str(error), error
assert store.is_writable
assert store.read("orders", 0, count - 1).message_count == 1
(path / "ballast").unlink()
for _ in range(20):
    store.append(Draft("orders", 0, bytes(100_000)))
    count += 1
store.close()
store = Store.open(config, store_host=Host("127.0.0.1", 1))
assert store.max_offset("orders", 0) == count
print(count)
"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_file_system_is_a_typed_error_and_no_bus_error(tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting a tmpfs is not allowed here: {mounted.stderr.decode().strip()}")
    try:
        ran = subprocess.run([sys.executable, "-c", FILL, tmp_path], capture_output=True, text=True, check=False)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 100
