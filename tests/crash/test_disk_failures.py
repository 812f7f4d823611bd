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
    assert read_all(open_store(again._files.disk.after_power_cut(Random(1)))) == 1


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


def test_a_full_file_system_is_a_typed_error_and_no_bus_error(small_disk):
    ran = subprocess.run([sys.executable, "-c", FILL, small_disk], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 100


START_ON_A_FULL_DISK = """
import os, sys
from pathlib import Path
from orbitmq.errors import StoreError
from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig

path, cut, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
config = StoreConfig(path=path / "store", segment_size=1 << 22)
if os.fork() == 0:
    store = Store.open(config, store_host=Host("127.0.0.1", 1))
    for _ in range(100):
        store.append(Draft("orders", 0, bytes(1000)))
        store.append(Draft("bills", 0, bytes(1000)))
    store.flush()
    os._exit(0)  # like kill -9
os.wait()
os.truncate(path / "store" / cut, size)
with open(path / "ballast", "wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(bytes(4096))
    except OSError:
        pass


def start():
    try:
        store = Store.open(config, store_host=Host("127.0.0.1", 1))
    except StoreError as error:
        return str(error)
    found = str(store.max_offset("orders", 0))
    store.close()
    return found


print(start())
(path / "ballast").unlink()
print(start())
"""


@pytest.mark.parametrize(
    ("cut", "size", "without_room"),
    [
        ("consumequeue/orders/0", 0, "100"),
        ("consumequeue/orders/0", 1000, "100"),
        ("commitlog", 0, "ends at 0 (nothing was written here), but"),
        ("commitlog", 8192, "cannot be opened: [Errno 28] No space left on device"),
    ],
)
def test_a_start_on_a_full_disk_with_a_file_cut_short_is_no_bus_error(small_disk, cut, size, without_room):
    ran = subprocess.run(
        [sys.executable, "-c", START_ON_A_FULL_DISK, small_disk, f"{cut}/{0:020}", str(size)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    full, freed = ran.stdout.splitlines()
    assert without_room in full
    if cut == "commitlog":
        assert "bytes behind that were on the disk" in freed
    else:
        assert freed == "100"
