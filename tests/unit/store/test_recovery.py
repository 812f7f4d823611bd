"""Recovery: the end of the log, and queues in line with it."""

from dataclasses import replace
from pathlib import Path
from random import Random
from struct import pack_into

import pytest

from cases import each_case
from orbitmq.errors import StoreError
from orbitmq.model.delay_levels import parse_delay_levels
from orbitmq.model.message import Host
from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store import Draft, ReadStatus, Store, StoreConfig
from orbitmq.store.queues.consume_queue import BLANK_UNIT
from orbitmq.store.recovery import LogEnd, classify_end
from orbitmq.store.sync.checkpoint import StoreCheckpoint, format_checkpoint
from orbitmq.testing.fake_disk import FakeDisk, PowerCut
from orbitmq.wire.messages.record import iter_records

from .parts import entries_end_at

ROOT = Path("/store")
CONFIG = StoreConfig(path=ROOT, segment_size=2048, consume_queue_units=128)
FIRST_SEGMENT = ROOT / "commitlog" / f"{0:020}"


class World:
    """A store on a fake disk whose clock moves one second per message."""

    def __init__(self, disk=None):
        self.disk = disk or FakeDisk()
        self.now_ms = 1_700_000_000_000
        self.store = self.open()

    def open(self, accept_log_end=None):
        config = replace(CONFIG, accept_log_end=accept_log_end)
        self.store = Store.open(config, store_host=Host("127.0.0.1", 1), clock=lambda: self.now_ms, disk=self.disk)
        return self.store

    def send(self, count=1, queue_id=0, topic="orders", body=b"", **fields):
        for _ in range(count):
            self.now_ms += 1000
            result = self.store.append(Draft(topic, queue_id, body, b"TAGS\x01t\x02", **fields))
        return result

    def kill(self, checkpoint_ms=None):
        """Stop like `kill -9`; the checkpoint says that all before three seconds before `checkpoint_ms` is synced."""
        if checkpoint_ms is not None:
            self.sync_queues()
        self.disk = self.disk.after_kill()
        if checkpoint_ms is not None:
            entries_end = entries_end_at(self.disk, checkpoint_ms - 3000)
            checkpoint = StoreCheckpoint(checkpoint_ms, checkpoint_ms, entries_end=entries_end)
            self.disk.write(ROOT / "checkpoint", format_checkpoint(checkpoint))
        return self.open()

    def sync_queues(self):
        """Bring the entries into their files, without a checkpoint that covers them."""
        before = self.disk.read(ROOT / "checkpoint")
        self.store.flush()
        self.disk.write(ROOT / "checkpoint", before)

    def queue_file(self, queue_id=0, topic="orders"):
        return self.disk.files[ROOT / "consumequeue" / topic / str(queue_id) / f"{0:020}"].buffer

    def offsets(self, queue_id=0, topic="orders"):
        found = self.store.read(topic, queue_id, self.store.min_offset(topic, queue_id), 1000, 1 << 20)
        return [record.queue_offset for record in iter_records(found.body)]


@pytest.fixture
def world() -> World:
    return World()


def test_an_empty_directory_is_an_empty_store(world):
    assert world.store.recovered == (0, 0, 0, 0)
    world.store.close()
    assert world.open().recovered == (0, 0, 0, 0)


def test_after_an_orderly_stop_only_the_last_record_is_read_again(world):
    last = world.send(50)
    world.store.close()
    recovered = world.open().recovered
    assert recovered == (last.physical_offset, last.end, 1, last.stored_at_ms)
    assert world.offsets() == list(range(50))
    assert world.send().queue_offset == 50


def test_after_a_kill_only_what_came_after_the_checkpoint_is_read_again(world):
    world.send(30)
    checkpoint_ms = world.now_ms
    world.send(20)
    # The last record that is three seconds older than the checkpoint, those three, and the twenty after it.
    assert world.kill(checkpoint_ms).recovered.record_count == 24
    assert world.offsets() == list(range(50))


def test_without_a_checkpoint_everything_is_read_again(world):
    world.send(50)
    assert world.kill().recovered.record_count == 50
    assert world.offsets() == list(range(50))


def test_entries_that_were_only_in_memory_come_back_from_the_log(world):
    world.send(10)
    world.sync_queues()
    world.send(20)
    world.send(5, topic="bills")
    assert world.disk.names(ROOT / "consumequeue") == ["orders"]
    world.kill()
    assert (world.offsets(), world.offsets(topic="bills")) == (list(range(30)), list(range(5)))


def test_entries_of_delayed_messages_come_back_with_the_levels_of_this_start(world):
    world.send(topic=SCHEDULE_TOPIC)
    world.store.append(Draft(SCHEDULE_TOPIC, 0, b"later", b"DELAY\x011\x02"))
    config = replace(CONFIG, delay_levels=parse_delay_levels("1d"))
    store = Store.open(config, store_host=Host("127.0.0.1", 1), disk=world.disk.after_kill())
    entries = store.queue_entries(SCHEDULE_TOPIC, 0, 1, 1) or []
    assert [entry[2] for entry in entries] == [world.now_ms + 86_400_000]


def test_a_checkpoint_covers_a_place_whatever_the_times_are(world):
    world.send(10)
    world.now_ms -= 3_600_000  # the clock is set back an hour
    world.send(5)
    world.store.flush()
    world.send(3)
    assert world.kill().recovered.record_count == 4
    assert world.offsets() == list(range(18))


def test_a_checkpoint_of_javas_covers_the_files_before_the_last_that_begins_before_it(world):
    world.send(15, body=bytes(100))
    world.store.flush()
    world.disk = world.disk.after_kill()
    world.disk.write(ROOT / "checkpoint", format_checkpoint(StoreCheckpoint(world.now_ms, world.now_ms)))
    recovered = world.open().recovered
    assert 0 < recovered.start < 2048 < recovered.end
    assert world.offsets() == list(range(15))


def test_lost_consume_queues_are_rebuilt(world):
    world.send(20, queue_id=1)
    world.send(20, queue_id=2, topic="bills")
    world.store.close()
    world.disk.remove(ROOT / "consumequeue")
    assert world.open().recovered.record_count == 40
    assert world.offsets(1) == world.offsets(2, "bills") == list(range(20))
    assert world.send(queue_id=1).queue_offset == 20


def test_the_undispatched_tail_across_a_file_boundary_is_dispatched_once_upstream_1434(world):
    world.send(15, body=bytes(100))
    assert world.store.max_physical_offset > 2048
    world.sync_queues()
    # The queue knows of three messages; the other twelve lie around the boundary.
    world.queue_file()[3 * 20 :] = bytes(125 * 20)
    world.kill(checkpoint_ms=1_700_000_006_000)
    assert world.offsets() == list(range(15))


@pytest.mark.parametrize("survivors", [0, 1, 7])
def test_entries_of_messages_that_are_lost_are_dropped(survivors, world):
    results = [world.send() for _ in range(8)]
    end = results[survivors].physical_offset
    world.disk.files[FIRST_SEGMENT].buffer[end : end + 50] = bytes(50)
    world.kill()
    assert world.offsets() == list(range(survivors))
    assert world.store.max_physical_offset == end
    assert world.send().queue_offset == survivors


def test_what_lies_behind_the_end_is_wiped_upstream_10666(world):
    results = [world.send() for _ in range(8)]
    end = results[3].physical_offset
    world.disk.files[FIRST_SEGMENT].buffer[end] ^= 0xFF
    world.kill()
    assert not any(world.disk.files[FIRST_SEGMENT].buffer[end:])
    assert world.disk.files[FIRST_SEGMENT].durable == bytes(world.disk.files[FIRST_SEGMENT].buffer)


def test_segments_behind_a_damaged_record_are_removed(world):
    world.send(30, body=bytes(100))
    assert len(world.disk.names(ROOT / "commitlog")) == 3
    world.disk.files[FIRST_SEGMENT].buffer[90] ^= 1
    world.kill()
    assert world.disk.names(ROOT / "commitlog") == [FIRST_SEGMENT.name]
    assert world.store.max_physical_offset == 0


def test_an_old_record_in_a_reused_file_is_not_taken_for_new_upstream_10017(world):
    first = world.send(body=b"the same size")
    world.send(body=b"the same size")
    buffer = world.disk.files[FIRST_SEGMENT].buffer
    stale = bytes(buffer[: first.end])
    buffer[2 * first.end : 3 * first.end] = stale
    world.kill()
    assert world.offsets() == [0, 1]


def test_a_body_with_a_checksum_of_zero_is_kept_upstream_9121(world):
    world.send(body=bytes.fromhex("9d0ad96d"))
    world.send(3)
    world.kill()
    assert world.offsets() == [0, 1, 2, 3]


def test_half_messages_end_no_log(world):
    world.send(3)
    half = world.send(sys_flag=0x4)
    assert half.queue_offset == 0
    world.kill(world.now_ms)
    assert world.store.max_physical_offset == half.end
    world.store.close()
    assert world.open().max_physical_offset == half.end
    assert world.offsets() == [0, 1, 2]


def test_an_entry_that_a_torn_sector_made_up_is_not_believed(world):
    world.send(2, topic="bills")
    world.send(110)
    world.sync_queues()
    world.disk = world.disk.after_kill()
    # Sector 4 of the queue's file came through and sectors 0 to 3 did not: of entry 102 only its size is there.
    world.queue_file()[: 4 * 512] = bytes(4 * 512)
    # And the records themselves are lost, so that no replay writes over it.
    log = world.disk.files[FIRST_SEGMENT].buffer
    log[300:] = bytes(2048 - 300)
    world.disk.write(ROOT / "checkpoint", format_checkpoint(StoreCheckpoint(2**60, 2**60, entries_end=2**60)))
    for entry in range(103):  # the bisection is led there by units that look filled
        if entry < 102:
            world.queue_file()[entry * 20 : entry * 20 + 20] = (
                (40).to_bytes(8, "big") + (7).to_bytes(4, "big") + bytes(8)
            )
    world.open()
    assert world.store.max_offset("orders", 0) == len(world.offsets()) < 2


def test_a_record_of_an_impossible_topic_ends_no_log(caplog, world):
    world.send(3)
    bad = world.send(topic="ab/cd".replace("/", "_"))
    last = world.send(2)
    topic_at = bad.physical_offset + 88 + 1
    world.disk.files[FIRST_SEGMENT].buffer[topic_at + 2] = ord("/")
    world.kill()
    assert world.store.max_physical_offset == last.end
    assert world.offsets() == [0, 1, 2, 3, 4]
    assert world.store.recovery_report.unplaced_count == 1
    assert f"the record at {bad.physical_offset} is in no queue" in caplog.text


def test_a_topic_that_was_not_written_to_its_end_ends_the_log(world):
    world.send(3)
    bad = world.send(topic="bills")
    topic_at = bad.physical_offset + 88 + 1
    world.disk.files[FIRST_SEGMENT].buffer[topic_at + 3 : topic_at + 5] = bytes(2)
    world.kill()
    assert world.store.max_physical_offset == bad.physical_offset


def test_a_record_of_a_negative_queue_ends_no_log(world):
    world.send(3)
    bad = world.send(queue_id=4)
    last = world.send()
    pack_into(">i", world.disk.files[FIRST_SEGMENT].buffer, bad.physical_offset + 12, -4)
    world.kill()
    assert world.store.max_physical_offset == last.end
    assert world.offsets() == [0, 1, 2, 3]


def test_a_topic_made_again_after_thousands_of_messages_ends_no_log(world):
    world.send()
    # The deleted queue had been counting for long: its last messages are still in the log.
    old = [world.send(body=b"old") for _ in range(3)]
    for number, result in enumerate(old):
        pack_into(">q", world.disk.files[FIRST_SEGMENT].buffer, result.physical_offset + 20, 3_100_000 + number)
    world.store.delete_topic("orders")
    world.send(4)
    last = world.send(3, topic="bills")
    world.kill()
    assert world.store.max_physical_offset == last.end
    assert world.offsets() == [0, 1, 2, 3]
    assert world.offsets(topic="bills") == [0, 1, 2]


def test_a_queue_offset_that_was_never_given_ends_no_log(world):
    results = [world.send() for _ in range(6)]
    pack_into(">q", world.disk.files[FIRST_SEGMENT].buffer, results[2].physical_offset + 20, 1 << 40)
    world.kill()
    assert world.store.max_physical_offset == results[-1].end
    found = list(iter_records(world.store.read("orders", 0, 3, 100).body))
    assert [record.queue_offset for record in found] == [3, 4, 5]
    assert world.send().queue_offset == 6


def test_a_queue_whose_first_messages_are_gone_keeps_its_offsets(world):
    world.send(40, body=bytes(100))
    world.store.close()
    world.disk.remove(FIRST_SEGMENT)  # as retention does
    world.open()
    first = world.store.min_offset("orders", 0)
    assert 0 < first < 40
    assert world.offsets() == list(range(first, 40))
    world.kill()
    assert world.offsets() == list(range(first, 40))
    found = world.store.read("orders", 0, 0)
    assert (found.status, found.next_offset) == (ReadStatus.OFFSET_TOO_SMALL, first)


def test_a_queue_whose_messages_are_all_gone_goes_on_counting(world):
    world.send(5)
    world.send(60, topic="bills", body=bytes(100))
    world.store.close()
    world.disk.remove(FIRST_SEGMENT)
    world.open()
    assert world.store.min_offset("orders", 0) == world.store.max_offset("orders", 0) == 5
    assert world.store.earliest_stored_at_ms("orders", 0) == -1
    assert world.store.stored_at_ms("orders", 0, 4) == world.store.stored_at_ms("orders", 0, 5) == -1
    assert world.send().queue_offset == 5
    world.kill()
    assert world.offsets() == [5]


def test_blanks_of_a_late_queue_are_trusted(world):
    world.send(3)
    world.sync_queues()
    queue = world.queue_file()
    log = world.disk.files[FIRST_SEGMENT].buffer
    for number in range(3):  # the queue as if it had begun at 50
        at = int.from_bytes(queue[number * 20 : number * 20 + 8], "big")
        pack_into(">q", log, at + 20, 50 + number)
    entries = bytes(queue[:60])
    queue[: 53 * 20] = BLANK_UNIT * 50 + entries
    world.kill(world.now_ms)
    assert world.offsets() == [50, 51, 52]
    assert world.kill().recovered.record_count == 3
    assert world.offsets() == [50, 51, 52]
    world.disk = world.disk.after_kill()
    world.disk.remove(ROOT / "commitlog")
    assert world.open().max_offset("orders", 0) in (50, 53)


def test_a_topic_that_was_deleted_and_made_again_starts_at_zero_after_a_crash(world):
    world.send(10)
    world.store.delete_topic("orders")
    assert world.store.max_offset("orders", 0) == 0
    world.send(4)
    world.kill()
    assert world.offsets() == [0, 1, 2, 3]


CLIENTS_CHECKSUM = b"CLUSTER\x01x\x02__CRC32#\x010123456789\x02"


def test_a_checksum_that_a_client_made_up_ends_no_log(world):
    world.store.append(Draft("orders", 0, b"", CLIENTS_CHECKSUM))
    last = world.send(20)
    world.kill()
    assert world.offsets() == list(range(21))
    assert world.store.max_physical_offset == last.end


def test_a_message_with_a_made_up_checksum_survives_every_orderly_stop(world):
    for count in range(1, 4):
        world.store.append(Draft("orders", 0, b"", CLIENTS_CHECKSUM))
        world.store.close()
        world.open()
        assert world.offsets() == list(range(count))


def test_what_recovery_cuts_off_lies_in_the_quarantine(caplog, world):
    results = [world.send(body=bytes([number]) * 100) for number in range(30)]
    first = bytes(world.disk.files[FIRST_SEGMENT].buffer)
    world.disk.files[FIRST_SEGMENT].buffer[results[3].physical_offset] ^= 0xFF
    damaged = bytes(world.disk.files[FIRST_SEGMENT].buffer)
    later = {path: bytes(file.buffer) for path, file in world.disk.files.items() if path.parent == FIRST_SEGMENT.parent}
    world.kill()
    end = results[3].physical_offset
    recovery_report = world.store.recovery_report
    assert {taken.offset for taken in recovery_report.set_aside} == {end, 2048, 4096}
    kept = {taken.offset: bytes(world.disk.files[taken.path].buffer) for taken in recovery_report.set_aside}
    assert kept[end] == damaged[end:].rstrip(b"\0")
    assert damaged[end + 1 :] == first[end + 1 :]
    assert kept[2048] == later[FIRST_SEGMENT.with_name(f"{2048:020}")]
    assert kept[4096] == later[FIRST_SEGMENT.with_name(f"{4096:020}")]
    assert recovery_report.cut_size == sum(taken.length for taken in recovery_report.set_aside) > 3000
    assert f"off the commitlog at {end} (magic" in caplog.text or f"off the commitlog at {end} (size" in caplog.text


def test_a_good_store_leaves_nothing_in_the_quarantine(world):
    world.send(30, body=bytes(100))
    world.kill()
    world.store.close()
    world.open()
    recovery_report = world.store.recovery_report
    assert (
        recovery_report.set_aside,
        recovery_report.cut_size,
        recovery_report.unplaced_count,
        recovery_report.rebuilt,
    ) == ([], 0, 0, [])
    assert world.disk.names(ROOT / "quarantine") == []


def test_nothing_is_cut_when_the_quarantine_takes_nothing(world):
    results = [world.send() for _ in range(8)]
    world.disk.files[FIRST_SEGMENT].buffer[results[3].physical_offset] ^= 0xFF
    before = bytes(world.disk.files[FIRST_SEGMENT].buffer)
    disk = world.disk = world.disk.after_kill()
    disk.failures["sync"] = OSError(28, "No space left on device")
    with pytest.raises(StoreError, match="Nothing was cut"):
        world.open()
    assert bytes(disk.files[FIRST_SEGMENT].buffer) == before
    disk.failures.clear()
    assert world.open().max_physical_offset == results[3].physical_offset
    assert world.store.recovery_report.cut_size > 0


@pytest.mark.parametrize("cut_at", range(1, 60))
def test_a_power_cut_while_a_queue_is_rebuilt_loses_no_entry(cut_at, world):
    for _ in range(5):
        world.send()
        world.send(topic="bills")
    world.store.flush()
    world.queue_file()[0:100] = bytes(100)
    world.send(2)
    world.store.flush()
    for file in world.disk.files.values():
        file.durable = bytes(file.buffer)
    disk = world.disk = world.disk.after_kill()
    disk.cut_at = cut_at
    try:
        world.open()
        disk.cut_at = None
    except PowerCut:
        world.disk = disk.after_power_cut(Random(cut_at))
        world.open()
    assert world.offsets() == list(range(7))
    assert world.offsets(topic="bills") == list(range(5))


def emptied(world, path):
    world.disk.write(path, b"")


def removed(world, path):
    world.disk.remove(path)


def directory_removed(world, path):
    world.disk.remove(path.parents[1])


def zeroed(first, end):
    def damage(world, path):
        world.disk.files[path].buffer[first * 20 : end * 20] = bytes((end - first) * 20)

    return damage


def garbled(first, end):
    def damage(world, path):
        world.disk.files[path].buffer[first * 20 : end * 20] = Random(1).randbytes((end - first) * 20)

    return damage


def shifted(world, path):
    """Every entry where the next one belongs: each leads to a record of the queue, none to its own."""
    buffer = world.disk.files[path].buffer
    buffer[20 : 105 * 20] = bytes(buffer[: 104 * 20])


@pytest.mark.parametrize("is_orderly", [True, False], ids=["after an orderly stop", "after a kill"])
@pytest.mark.parametrize(
    "damage",
    [
        emptied, removed, directory_removed, shifted,
        zeroed(0, 1), zeroed(0, 40), zeroed(40, 60), zeroed(100, 105), zeroed(0, 105),
        garbled(0, 1), garbled(40, 60), garbled(104, 105), garbled(0, 105),
    ],
    ids=[
        "emptied", "removed", "directory removed", "shifted",
        "zeroed first", "zeroed beginning", "zeroed middle", "zeroed end", "zeroed",
        "garbled first", "garbled middle", "garbled last", "garbled",
    ],
)  # fmt: skip
def test_a_damaged_consume_queue_misleads_no_reader(damage, is_orderly, world):
    world.send(105)
    world.send(5, topic="bills")
    world.store.close()
    if not is_orderly:
        world.open()
        world.send(3, topic="bills")
        world.kill(world.now_ms)
        world.disk = world.disk.after_kill()
    damage(world, ROOT / "consumequeue" / "orders" / "0" / f"{0:020}")
    world.open()
    assert world.offsets() == list(range(105))
    assert world.send().queue_offset == 105
    assert world.offsets(topic="bills") == list(range(5 if is_orderly else 8))
    world.kill(world.now_ms)
    assert world.store.recovery_report.rebuilt == []


@pytest.mark.parametrize("damage", [emptied, removed, zeroed(0, 128)], ids=["emptied", "removed", "zeroed"])
@pytest.mark.parametrize("number", range(3))
def test_any_file_of_a_consume_queue_may_be_damaged(number, damage, world):
    world.send(300)
    world.send(5, topic="bills")
    world.store.close()
    damage(world, ROOT / "consumequeue" / "orders" / "0" / f"{number * 128 * 20:020}")
    world.open()
    assert world.offsets() == list(range(300))
    assert world.store.recovery_report.rebuilt == [("orders", 0)]


def test_a_deleted_topics_queues_are_not_missed(world):
    world.send(20)
    world.send(5, topic="bills")
    world.store.close()
    world.open()
    world.store.delete_topic("orders")
    world.store.close()
    world.open()
    assert world.store.recovery_report.rebuilt == []
    assert world.store.max_offset("orders", 0) == 0
    world.store.delete_topic("bills")
    world.kill(world.now_ms)
    assert world.store.recovery_report.rebuilt == []


LAST_SEGMENT = FIRST_SEGMENT.with_name(f"{4096:020}")


@pytest.mark.parametrize("is_orderly", [True, False], ids=["after an orderly stop", "after a kill"])
@pytest.mark.parametrize(
    ("lost", "end"),
    [((LAST_SEGMENT,), 4096), ((FIRST_SEGMENT, FIRST_SEGMENT.with_name(f"{2048:020}"), LAST_SEGMENT), 0)],
)
def test_a_log_without_its_last_files_is_not_opened_until_its_end_is_accepted(lost, end, is_orderly, world):
    last = world.send(30, body=bytes(100))
    assert last.physical_offset > 4096
    world.store.flush()
    if is_orderly:
        world.store.close()
    world.disk = world.disk.after_kill()
    kept = {path: world.disk.files[path] for path in lost}
    for path in lost:
        world.disk.remove(path)
    before = {path: bytes(file.buffer) for path, file in world.disk.files.items() if path.name not in ("abort", "lock")}
    for other in (None, last.end):
        world.disk = world.disk.after_kill()
        with pytest.raises(
            StoreError, match=f"{last.end - end} bytes behind that were on the disk.*acceptLogEnd to {end}"
        ):
            world.open(other)
    now = {path: bytes(file.buffer) for path, file in world.disk.files.items() if path.name not in ("abort", "lock")}
    assert now == before

    without = world.disk.after_kill()
    world.disk = world.disk.after_kill()
    world.disk.files.update(kept)  # they were found again
    world.open()
    assert world.offsets() == list(range(30))

    world.disk = without
    world.open(end)
    assert world.store.recovery_report.lost_size == last.end - end
    assert world.store.max_physical_offset == end
    world.kill()  # the loss is known now
    assert world.store.max_physical_offset == end


def test_a_record_that_was_on_the_disk_and_is_damaged_ends_the_log_only_when_that_is_accepted(world):
    results = [world.send() for _ in range(8)]
    world.store.flush()
    world.disk.files[FIRST_SEGMENT].buffer[results[3].physical_offset] ^= 0xFF
    world.disk.remove(ROOT / "consumequeue")
    world.disk = world.disk.after_kill()
    log = bytes(world.disk.files[FIRST_SEGMENT].buffer)
    end = results[3].physical_offset
    with pytest.raises(StoreError, match=f"acceptLogEnd to {end} .*orbitmq store salvage"):
        world.open()
    assert bytes(world.disk.files[FIRST_SEGMENT].buffer) == log
    world.disk = world.disk.after_kill()
    world.open(end)
    assert world.offsets() == [0, 1, 2]
    assert world.store.recovery_report.cut_size == results[-1].end - end


def test_an_accepted_end_is_no_leave_for_another(world):
    results = [world.send() for _ in range(8)]
    world.store.close()
    world.open(results[3].physical_offset)
    assert world.offsets() == list(range(8))


@each_case(
    (100, 100, None, LogEnd.WHOLE),
    (200, 100, None, LogEnd.WHOLE),
    (200, 100, 50, LogEnd.WHOLE),
    (99, 100, None, LogEnd.LOST),
    (99, 100, 98, LogEnd.LOST),
    (99, 100, 99, LogEnd.ACCEPTED),
    (0, 100, 0, LogEnd.ACCEPTED),
)
def test_a_log_that_ends_before_what_was_on_the_disk_has_lost_something(end, durable, accepted, log_end):
    assert classify_end(end, durable, accepted) is log_end


@pytest.mark.parametrize("is_clean", [True, False])
def test_first_files_of_the_log_that_were_removed_are_missed_once(is_clean, caplog, world):
    world.send(40)
    if is_clean:
        world.store.close()
    world.disk.remove(FIRST_SEGMENT)
    world.kill()
    assert world.store.recovery_report.lost_head_size == 2048
    assert "the commitlog begins at 2048; 2048 bytes before that were removed from outside" in caplog.text
    assert world.send().queue_offset == 40
    world.kill()
    assert world.store.recovery_report.lost_head_size == 0


def test_a_queue_whose_first_file_is_missing_is_rebuilt_after_kill_9(world):
    world.send(300)
    world.sync_queues()
    world.disk.remove(ROOT / "consumequeue" / "orders" / "0" / f"{0:020}")
    world.kill()
    assert (world.store.recovery_report.rebuilt, world.offsets()) == ([("orders", 0)], list(range(300)))


@pytest.mark.parametrize("count", [1, 5, 300])
def test_the_queue_of_the_logs_last_message_is_rebuilt_when_it_is_gone_after_an_orderly_stop(count, world):
    world.send(3, topic="bills")
    world.send(count)
    world.store.close()
    world.disk.remove(ROOT / "consumequeue" / "orders")
    world.disk = world.disk.after_kill()
    world.open()
    assert (world.store.recovery_report.rebuilt, world.offsets()) == ([("orders", 0)], list(range(count)))


def test_a_queue_that_is_gone_after_kill_9_does_not_begin_with_what_is_read_again(world):
    world.send(45)
    world.send(topic="bills")
    world.send(5)
    world.store.flush()
    checkpoint_ms = world.now_ms
    world.send(3)
    world.disk.remove(ROOT / "consumequeue" / "orders")
    world.kill(checkpoint_ms)
    assert (world.store.recovery_report.rebuilt, world.offsets()) == ([("orders", 0)], list(range(53)))
