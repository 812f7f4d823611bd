"""The order of syncs, step by step: the loop, the flusher and its outcomes are turned by hand."""

import errno
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import DescriptorShortage
from orbitmq.model.message import Host
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.sync import syncing
from orbitmq.store.sync.checkpoint import StoreCheckpoint, parse_checkpoint
from orbitmq.store.sync.durability import Durability
from orbitmq.store.values import Dispatched, Draft
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import format_topic

COMMIT_MS, ROUND_MS = 500, 2000
BROKEN = OSError(errno.EIO, "Input/output error")


class HandTimer:
    def __init__(self, delay_s, act):
        self.delay_s = delay_s
        self.act = act
        self.is_cancelled = False

    def cancel(self):
        self.is_cancelled = True


class HandLoop:
    """What syncing needs of an event loop."""

    def __init__(self):
        self.soon = []
        self.timers = []

    def call_soon(self, act):
        self.soon.append(act)

    def call_later(self, delay_s, act):
        self.timers.append(HandTimer(delay_s, act))
        return self.timers[-1]

    def turn(self):
        """Run what is due at the end of this turn."""
        soon, self.soon = self.soon, []
        for act in soon:
            act()

    def elapse(self, ms):
        """Run the timer of an interval, and the turn after it."""
        timer = next(timer for timer in self.timers if timer.delay_s == ms / 1000)
        self.timers.remove(timer)
        timer.act()
        self.turn()


class HandFlusher:
    """A flusher whose tasks run when the test says so."""

    def __init__(self, _loop):
        self.tasks = deque()
        self.task_count = 0

    def submit(self, task, done):
        self.tasks.append((task, done))
        self.task_count += 1

    def run_next(self):
        task, done = self.tasks.popleft()
        try:
            task()
        except OSError as error:
            done(error)
        else:
            done(None)

    def stop(self):
        while self.tasks:
            self.run_next()


class SeenDisk(FakeDisk):
    """Notes what was synced or written: log, queues or checkpoint."""

    def __init__(self):
        super().__init__()
        self.done = []

    def act(self, operation, path):
        super().act(operation, path)
        if operation in ("sync", "write"):
            self.done.append(path.parts[1])


class Rig:
    """Syncing, what it syncs, and what it told."""

    def __init__(self, checkpoint):
        self.disk = SeenDisk()
        self.loop = HandLoop()
        self.durable, self.failures, self.answers = [], [], []
        self.log = CommitLog(self.disk, Path("/log"), 4096, store_host=Host("127.0.0.1", 1))
        self.queues = ConsumeQueues(self.disk, Path("/queues"), 100)
        self.durability = Durability()
        self.syncing = syncing.Syncing(
            self.log, self.queues, self.durability, checkpoint=checkpoint,
            write_checkpoint=lambda content: self.disk.write(Path("/checkpoint"), content),
            on_durable=self.durable.append, on_failure=self.failures.append,
        )  # fmt: skip
        self.flusher = HandFlusher(None)

    def append(self, stored_at_ms=1000, queue_id=0, has_entry=True):
        """Append a message, and its entry, as the store does; return where the log ends."""
        size = self.log.append(Draft("orders", queue_id, b"hello"), *format_topic("orders"), 0, stored_at_ms)
        self.syncing.stored_at_ms = stored_at_ms
        if has_entry:
            offset = self.queues.make("orders", queue_id).max_offset
            self.queues.replay(
                Dispatched("orders", queue_id, offset, self.log.end - size, size, 0, stored_at_ms, 0, b"")
            )
        return self.log.end

    def settle(self):
        """Run tasks until none is left."""
        self.loop.turn()
        while self.flusher.tasks:
            self.flusher.run_next()
            self.loop.turn()

    def round(self):
        """Let a round begin, see it to its end, and return what it did."""
        self.disk.done.clear()
        self.loop.elapse(ROUND_MS)
        self.settle()
        return self.disk.done

    def checkpoint(self):
        return parse_checkpoint(self.disk.read(Path("/checkpoint")))


@pytest.fixture
def make_rig(monkeypatch):
    def make(checkpoint=StoreCheckpoint(), commit_every_ms=COMMIT_MS):  # noqa: B008 - a value
        rig = Rig(checkpoint)
        monkeypatch.setattr(syncing, "Flusher", lambda _loop: rig.flusher)
        loop: Any = rig.loop
        rig.syncing.attach(loop, commit_every_ms=commit_every_ms, checkpoint_every_ms=ROUND_MS)
        return rig

    return make


@pytest.fixture
def rig(make_rig):
    return make_rig()


def test_requests_of_one_turn_make_one_look_and_one_sync(rig):
    for _ in range(3):
        rig.append(has_entry=False)
        rig.syncing.request()
    assert len(rig.loop.soon) == 1
    rig.loop.turn()
    rig.syncing.request()
    assert (rig.loop.soon, rig.flusher.task_count) == ([], 1)


def test_a_request_during_a_sync_is_served_after_it_by_one_more(rig):
    first = rig.append(has_entry=False)
    rig.syncing.request()
    rig.loop.turn()
    second = rig.append(has_entry=False)
    rig.syncing.request()
    rig.flusher.run_next()
    assert (rig.durable, rig.flusher.task_count) == ([first], 2)
    rig.settle()
    assert (rig.durable, rig.flusher.task_count) == ([first, second], 2)


def test_what_comes_during_a_sync_and_is_not_asked_for_waits_for_its_time(rig):
    first = rig.append(has_entry=False)
    rig.loop.elapse(COMMIT_MS)
    second = rig.append(has_entry=False)
    rig.settle()
    assert rig.durable == [first]
    rig.loop.elapse(COMMIT_MS)
    rig.settle()
    assert rig.durable == [first, second]


def test_where_nothing_is_new_nothing_is_synced(rig):
    rig.loop.elapse(COMMIT_MS)
    assert rig.round() == []
    assert rig.flusher.task_count == 0


def test_without_an_interval_the_log_is_synced_on_request_and_with_rounds(make_rig):
    rig = make_rig(commit_every_ms=None)
    assert [timer.delay_s for timer in rig.loop.timers] == [ROUND_MS / 1000]
    rig.append()
    assert rig.round() == ["log", "queues", "checkpoint"]


def test_intervals_go_on(rig):
    for stored_at_ms in (1, 2, 3):
        rig.append(stored_at_ms, has_entry=False)
        rig.loop.elapse(COMMIT_MS)
        rig.settle()
    assert len(rig.durable) == 3


def test_a_round_syncs_the_log_then_the_queues_then_writes_the_checkpoint_that_vouches_for_both(rig):
    end = rig.append(5000)
    assert rig.round() == ["log", "queues", "checkpoint"]
    assert rig.checkpoint() == (5000, 0, 0, end, end)
    # What was synced when a round began is what its queues have; the next round vouches for the message.
    assert rig.round() == ["checkpoint"]
    assert rig.checkpoint() == (5000, 5000, 0, end, end)
    assert rig.round() == []


def test_a_round_syncs_only_queues_that_have_new_entries(rig):
    for queue_id in range(3):
        rig.append(queue_id=queue_id)
    assert rig.round() == ["log", "queues", "queues", "queues", "checkpoint"]
    rig.round()
    rig.append(queue_id=1)
    assert rig.round() == ["log", "queues", "checkpoint"]


def test_entries_of_the_checkpoints_own_millisecond_are_synced_and_told_as_well(make_rig):
    rig = make_rig(StoreCheckpoint(5000, 5000))
    rig.syncing.start(5000)
    end = rig.append(5000)
    rig.round()
    assert rig.checkpoint() == (5000, 5000, 0, end, end)


def test_messages_without_an_entry_move_the_checkpoint_as_well(rig):
    rig.append(5000, has_entry=False)
    rig.loop.elapse(COMMIT_MS)
    rig.settle()
    assert rig.round() == ["checkpoint"]
    assert rig.checkpoint()[:2] == (5000, 5000)


def test_a_round_that_is_due_while_one_is_under_way_is_left_out(rig):
    rig.append()
    rig.loop.elapse(ROUND_MS)
    rig.flusher.run_next()  # the log
    rig.loop.elapse(ROUND_MS)
    rig.settle()
    assert rig.disk.done == ["log", "queues", "checkpoint"]


def test_entries_that_come_during_their_queues_sync_belong_to_the_next_round(rig):
    rig.append()
    rig.loop.elapse(ROUND_MS)
    rig.flusher.run_next()
    rig.append()
    rig.settle()
    assert rig.round() == ["log", "queues", "checkpoint"]


def test_a_commit_that_is_asked_for_goes_before_the_rest_of_a_round(rig):
    for queue_id in range(9):
        rig.append(queue_id=queue_id)
    rig.loop.elapse(ROUND_MS)
    rig.flusher.run_next()
    rig.append(has_entry=False)
    rig.syncing.request()
    rig.settle()
    second = rig.disk.done.index("log", 1)
    assert rig.disk.done[:second] == ["log"] + ["queues"] * (second - 1)
    assert second < rig.disk.done.index("checkpoint")
    assert rig.disk.done.count("queues") == 9


def test_syncing_now_brings_everything_to_the_disk_and_tells_it_once(rig):
    end = rig.append(5000)
    for _ in range(2):
        rig.syncing.sync_now()
    assert rig.durable == [end]
    assert rig.checkpoint() == (5000, 5000, 0, end, end)
    assert rig.disk.done == ["log", "queues", "checkpoint", "checkpoint"]
    assert all(file.durable == bytes(file.buffer) for file in rig.disk.files.values())


def test_an_empty_store_has_a_checkpoint_that_knows_nothing(rig):
    rig.syncing.sync_now()
    assert rig.checkpoint() == (0, 0, 0, 0, 0)
    assert rig.syncing.stored_at_ms == 0


def test_a_group_commit_that_is_overtaken_tells_nothing_twice(rig):
    rig.append(has_entry=False)
    rig.syncing.request()
    rig.loop.turn()
    end = rig.append(has_entry=False)
    rig.syncing.sync_now()
    rig.settle()
    assert rig.durable == [end]


@pytest.mark.parametrize("step", ["log", "queues"])
def test_a_failed_sync_at_any_step_fences_once_and_ends_all_work(rig, step):
    rig.append()
    rig.loop.elapse(ROUND_MS)
    while rig.disk.done != ["log", "queues"][: ["log", "queues"].index(step)]:
        rig.flusher.run_next()
    rig.disk.failures["sync"] = BROKEN
    rig.flusher.run_next()
    assert rig.failures == [BROKEN]
    assert rig.durability.is_fenced
    rig.disk.failures.clear()
    before = list(rig.disk.done)
    rig.append()
    rig.syncing.request()
    rig.loop.elapse(ROUND_MS)
    rig.settle()
    rig.syncing.sync_now()
    assert (rig.disk.done, rig.failures) == (before, [BROKEN])


def test_entries_whose_sync_failed_do_not_count_as_synced(rig):
    rig.append()
    rig.loop.elapse(ROUND_MS)
    rig.flusher.run_next()
    rig.disk.failures["sync"] = BROKEN
    rig.flusher.run_next()
    assert not rig.queues.get("orders", 0).is_synced


def test_two_syncs_that_fail_at_the_same_time_are_one_failure(rig):
    rig.append()
    rig.durability.wait(1, rig.answers.append)
    rig.syncing.request()
    rig.loop.turn()
    rig.disk.failures["sync"] = BROKEN
    rig.syncing.sync_now()
    rig.settle()
    assert (rig.failures, rig.answers) == ([BROKEN], [False])


def test_a_success_that_comes_in_after_a_failure_makes_nothing_durable_upstream_2706(rig):
    rig.append()
    rig.syncing.request()
    rig.loop.turn()
    rig.disk.failures["sync"] = BROKEN
    rig.syncing.sync_now()
    durable = list(rig.durable)
    rig.disk.failures.clear()
    rig.append()
    rig.settle()
    assert rig.durability.is_fenced
    assert rig.durable == durable


def test_a_stop_cancels_every_timer_and_hears_of_what_is_under_way(rig):
    end = rig.append(has_entry=False)
    rig.syncing.request()
    rig.loop.turn()
    assert rig.syncing.is_attached
    rig.syncing.stop()
    assert not rig.syncing.is_attached
    assert (rig.durable, len(rig.loop.timers)) == ([end], 2)
    assert all(timer.is_cancelled for timer in rig.loop.timers)
    rig.syncing.request()
    rig.loop.turn()
    assert rig.flusher.task_count == 1


def test_who_waits_is_answered_after_the_others_were_told(rig):
    end = rig.append(has_entry=False)
    rig.durability.wait(end, lambda is_durable: rig.answers.append((is_durable, list(rig.durable))))
    rig.syncing.request()
    rig.settle()
    assert rig.answers == [(True, [end])]


SHORTAGE = DescriptorShortage(errno.EMFILE, "Too many open files", "/queues")


def test_out_of_descriptors_the_queues_stay_unsynced_until_the_next_round_and_nothing_is_fenced(rig):
    end = rig.append(5000)
    rig.loop.elapse(ROUND_MS)
    rig.flusher.run_next()
    rig.disk.failures["sync"] = SHORTAGE
    rig.settle()
    assert not rig.queues.get("orders", 0).is_synced
    assert (rig.durability.is_fenced, rig.failures) == (False, [])
    assert "Too many open files" in rig.syncing.shortage
    assert rig.disk.done == ["log"], "no checkpoint vouches for what is not synced"
    rig.disk.failures.clear()
    assert rig.round() == ["queues", "checkpoint"]
    assert (rig.queues.get("orders", 0).is_synced, rig.syncing.shortage) == (True, None)
    assert rig.checkpoint().durable_offset == end


def test_group_commits_go_on_while_queues_wait_for_descriptors(rig):
    rig.append()
    rig.loop.elapse(ROUND_MS)
    rig.flusher.run_next()
    rig.disk.failures["sync"] = SHORTAGE
    rig.settle()
    rig.disk.failures.clear()
    end = rig.append(has_entry=False)
    rig.syncing.request()
    rig.settle()
    assert (rig.disk.done, rig.durable[-1]) == (["log", "log"], end)
    assert rig.syncing.shortage is not None


def test_a_group_commit_without_a_descriptor_is_tried_again_and_its_waiters_wait(rig):
    end = rig.append(has_entry=False)
    rig.durability.wait(end, rig.answers.append)
    rig.syncing.request()
    rig.disk.failures["sync"] = SHORTAGE
    rig.settle()
    assert (rig.durable, rig.answers, rig.failures) == ([], [], [])
    rig.disk.failures.clear()
    rig.loop.elapse(100)
    rig.settle()
    assert (rig.durable, rig.answers, rig.syncing.shortage) == ([end], [True], None)


def test_a_store_that_closes_without_a_descriptor_tells_who_waits_that_nothing_is_safe(rig):
    rig.durability.wait(rig.append(), rig.answers.append)
    rig.disk.failures["sync"] = SHORTAGE
    assert rig.syncing.sync_now() is False
    assert (rig.answers, rig.failures, rig.durability.is_fenced) == ([False], [], False)
    rig.disk.failures.clear()
    assert rig.syncing.sync_now() is True


def test_a_checkpoint_that_a_full_disk_refuses_is_written_by_the_next_round_and_fences_nothing(rig, caplog):
    end = rig.append(5000)
    rig.disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    assert rig.round() == ["log", "queues"]
    assert rig.round() == []
    assert (rig.durability.is_fenced, rig.failures) == (False, [])
    assert rig.syncing.checkpoint_failure == "the checkpoint cannot be written: [Errno 28] No space left on device"
    assert caplog.text.count("the checkpoint cannot be written") == 1
    rig.disk.failures.clear()
    assert rig.round() == ["checkpoint"]
    assert rig.checkpoint() == (5000, 5000, 0, end, end)
    assert rig.syncing.checkpoint_failure is None


def test_a_checkpoint_that_is_refused_at_the_end_leaves_no_claim_that_all_is_on_the_disk(rig):
    rig.append()
    rig.disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    assert rig.syncing.sync_now() is False
    assert not rig.durability.is_fenced


TIMEOUT_MS = 1000


@pytest.fixture
def late_rig(monkeypatch):
    rig = Rig(StoreCheckpoint())
    monkeypatch.setattr(syncing, "Flusher", lambda _loop: rig.flusher)
    loop: Any = rig.loop
    rig.syncing.attach(loop, commit_every_ms=None, checkpoint_every_ms=ROUND_MS, timeout_ms=TIMEOUT_MS)
    return rig


def look(rig, times):
    for _ in range(times):
        rig.loop.elapse(TIMEOUT_MS / 10)


def test_who_waits_longer_than_the_time_out_is_told_unknown_and_no_other(late_rig, caplog):
    end = late_rig.append(has_entry=False)
    late_rig.durability.wait(end, late_rig.answers.append)
    late_rig.syncing.request()
    look(late_rig, 3)
    late_rig.durability.wait(late_rig.append(has_entry=False), lambda is_durable: late_rig.answers.append("second"))
    look(late_rig, 7)
    assert (late_rig.answers, late_rig.syncing.hang) == ([], None)
    look(late_rig, 1)
    assert late_rig.answers == [None]
    look(late_rig, 1)
    assert late_rig.syncing.hang == "the disk hangs: a sync has not ended within 1000 ms"
    look(late_rig, 1)
    assert late_rig.answers == [None]
    look(late_rig, 1)
    assert late_rig.answers == [None, "second"]
    assert caplog.text.count("the disk hangs") == 1
    late_rig.settle()
    assert late_rig.syncing.hang is None
    assert (late_rig.durable[0], late_rig.answers) == (end, [None, "second"])


def test_a_disk_that_is_busy_with_one_task_after_another_does_not_hang(late_rig):
    for _ in range(30):
        late_rig.append(has_entry=False)
        late_rig.syncing.request()
        late_rig.loop.turn()
        look(late_rig, 1)
        late_rig.flusher.run_next()
    look(late_rig, 30)
    assert late_rig.syncing.hang is None
