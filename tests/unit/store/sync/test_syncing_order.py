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


class Harness:
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
def make_harness(monkeypatch):
    def make(checkpoint=StoreCheckpoint(), commit_every_ms=COMMIT_MS):  # noqa: B008 - a value
        harness = Harness(checkpoint)
        monkeypatch.setattr(syncing, "Flusher", lambda _loop: harness.flusher)
        loop: Any = harness.loop
        harness.syncing.attach(loop, commit_every_ms=commit_every_ms, checkpoint_every_ms=ROUND_MS)
        return harness

    return make


@pytest.fixture
def harness(make_harness):
    return make_harness()


def test_requests_of_one_turn_make_one_look_and_one_sync(harness):
    for _ in range(3):
        harness.append(has_entry=False)
        harness.syncing.request()
    assert len(harness.loop.soon) == 1
    harness.loop.turn()
    harness.syncing.request()
    assert (harness.loop.soon, harness.flusher.task_count) == ([], 1)


def test_a_request_during_a_sync_is_served_after_it_by_one_more(harness):
    first = harness.append(has_entry=False)
    harness.syncing.request()
    harness.loop.turn()
    second = harness.append(has_entry=False)
    harness.syncing.request()
    harness.flusher.run_next()
    assert (harness.durable, harness.flusher.task_count) == ([first], 2)
    harness.settle()
    assert (harness.durable, harness.flusher.task_count) == ([first, second], 2)


def test_what_comes_during_a_sync_and_is_not_asked_for_waits_for_its_time(harness):
    first = harness.append(has_entry=False)
    harness.loop.elapse(COMMIT_MS)
    second = harness.append(has_entry=False)
    harness.settle()
    assert harness.durable == [first]
    harness.loop.elapse(COMMIT_MS)
    harness.settle()
    assert harness.durable == [first, second]


def test_where_nothing_is_new_nothing_is_synced(harness):
    harness.loop.elapse(COMMIT_MS)
    assert harness.round() == []
    assert harness.flusher.task_count == 0


def test_without_an_interval_the_log_is_synced_on_request_and_with_rounds(make_harness):
    harness = make_harness(commit_every_ms=None)
    assert [timer.delay_s for timer in harness.loop.timers] == [ROUND_MS / 1000]
    harness.append()
    assert harness.round() == ["log", "queues", "checkpoint"]


def test_intervals_go_on(harness):
    for stored_at_ms in (1, 2, 3):
        harness.append(stored_at_ms, has_entry=False)
        harness.loop.elapse(COMMIT_MS)
        harness.settle()
    assert len(harness.durable) == 3


def test_a_round_syncs_the_log_then_the_queues_then_writes_the_checkpoint_that_covers_both(harness):
    end = harness.append(5000)
    assert harness.round() == ["log", "queues", "checkpoint"]
    assert harness.checkpoint() == (5000, 0, 0, end, end, 0)
    # What was synced when a round began is what its queues have; the next round covers the message.
    assert harness.round() == ["checkpoint"]
    assert harness.checkpoint()[:5] == (5000, 5000, 0, end, end)
    assert harness.round() == []


def test_a_round_syncs_only_queues_that_have_new_entries(harness):
    for queue_id in range(3):
        harness.append(queue_id=queue_id)
    assert harness.round() == ["log", "queues", "queues", "queues", "checkpoint"]
    harness.round()
    harness.append(queue_id=1)
    assert harness.round() == ["log", "queues", "checkpoint"]


def test_entries_of_the_checkpoints_own_millisecond_are_synced_and_told_as_well(make_harness):
    harness = make_harness(StoreCheckpoint(5000, 5000))
    harness.syncing.start(5000)
    end = harness.append(5000)
    harness.round()
    assert harness.checkpoint()[:5] == (5000, 5000, 0, end, end)


def test_messages_without_an_entry_move_the_checkpoint_as_well(harness):
    harness.append(5000, has_entry=False)
    harness.loop.elapse(COMMIT_MS)
    harness.settle()
    assert harness.round() == ["checkpoint"]
    assert harness.checkpoint()[:2] == (5000, 5000)


def test_a_round_that_is_due_while_one_is_under_way_is_left_out(harness):
    harness.append()
    harness.loop.elapse(ROUND_MS)
    harness.flusher.run_next()  # the log
    harness.loop.elapse(ROUND_MS)
    harness.settle()
    assert harness.disk.done == ["log", "queues", "checkpoint"]


def test_entries_that_come_during_their_queues_sync_belong_to_the_next_round(harness):
    harness.append()
    harness.loop.elapse(ROUND_MS)
    harness.flusher.run_next()
    harness.append()
    harness.settle()
    assert harness.round() == ["log", "queues", "checkpoint"]


def test_a_commit_that_is_asked_for_goes_before_the_rest_of_a_round(harness):
    for queue_id in range(9):
        harness.append(queue_id=queue_id)
    harness.loop.elapse(ROUND_MS)
    harness.flusher.run_next()
    harness.append(has_entry=False)
    harness.syncing.request()
    harness.settle()
    second = harness.disk.done.index("log", 1)
    assert harness.disk.done[:second] == ["log"] + ["queues"] * (second - 1)
    assert second < harness.disk.done.index("checkpoint")
    assert harness.disk.done.count("queues") == 9


def test_syncing_now_brings_everything_to_the_disk_and_tells_it_once(harness):
    end = harness.append(5000)
    for _ in range(2):
        harness.syncing.sync_now()
    assert harness.durable == [end]
    assert harness.checkpoint()[:5] == (5000, 5000, 0, end, end)
    assert harness.disk.done == ["log", "queues", "checkpoint", "checkpoint"]
    assert all(file.durable == bytes(file.buffer) for file in harness.disk.files.values())


def test_an_empty_store_has_a_checkpoint_that_knows_nothing(harness):
    harness.syncing.sync_now()
    assert harness.checkpoint()[:5] == (0, 0, 0, 0, 0)
    assert harness.syncing.stored_at_ms == 0


def test_a_group_commit_that_is_overtaken_tells_nothing_twice(harness):
    harness.append(has_entry=False)
    harness.syncing.request()
    harness.loop.turn()
    end = harness.append(has_entry=False)
    harness.syncing.sync_now()
    harness.settle()
    assert harness.durable == [end]


@pytest.mark.parametrize("step", ["log", "queues"])
def test_a_failed_sync_at_any_step_fences_once_and_ends_all_work(harness, step):
    harness.append()
    harness.loop.elapse(ROUND_MS)
    while harness.disk.done != ["log", "queues"][: ["log", "queues"].index(step)]:
        harness.flusher.run_next()
    harness.disk.failures["sync"] = BROKEN
    harness.flusher.run_next()
    assert harness.failures == [BROKEN]
    assert harness.durability.is_fenced
    harness.disk.failures.clear()
    before = list(harness.disk.done)
    harness.append()
    harness.syncing.request()
    harness.loop.elapse(ROUND_MS)
    harness.settle()
    harness.syncing.sync_now()
    assert (harness.disk.done, harness.failures) == (before, [BROKEN])


def test_entries_whose_sync_failed_do_not_count_as_synced(harness):
    harness.append()
    harness.loop.elapse(ROUND_MS)
    harness.flusher.run_next()
    harness.disk.failures["sync"] = BROKEN
    harness.flusher.run_next()
    assert not harness.queues.get("orders", 0).is_synced


def test_two_syncs_that_fail_at_the_same_time_are_one_failure(harness):
    harness.append()
    harness.durability.wait(1, harness.answers.append)
    harness.syncing.request()
    harness.loop.turn()
    harness.disk.failures["sync"] = BROKEN
    harness.syncing.sync_now()
    harness.settle()
    assert (harness.failures, harness.answers) == ([BROKEN], [False])


def test_a_success_that_comes_in_after_a_failure_makes_nothing_durable_upstream_2706(harness):
    harness.append()
    harness.syncing.request()
    harness.loop.turn()
    harness.disk.failures["sync"] = BROKEN
    harness.syncing.sync_now()
    durable = list(harness.durable)
    harness.disk.failures.clear()
    harness.append()
    harness.settle()
    assert harness.durability.is_fenced
    assert harness.durable == durable


def test_a_stop_cancels_every_timer_and_hears_of_what_is_under_way(harness):
    end = harness.append(has_entry=False)
    harness.syncing.request()
    harness.loop.turn()
    assert harness.syncing.is_attached
    harness.syncing.stop()
    assert not harness.syncing.is_attached
    assert (harness.durable, len(harness.loop.timers)) == ([end], 2)
    assert all(timer.is_cancelled for timer in harness.loop.timers)
    harness.syncing.request()
    harness.loop.turn()
    assert harness.flusher.task_count == 1


def test_who_waits_is_answered_after_the_others_were_told(harness):
    end = harness.append(has_entry=False)
    harness.durability.wait(end, lambda is_durable: harness.answers.append((is_durable, list(harness.durable))))
    harness.syncing.request()
    harness.settle()
    assert harness.answers == [(True, [end])]


SHORTAGE = DescriptorShortage(errno.EMFILE, "Too many open files", "/queues")


def test_out_of_descriptors_the_queues_stay_unsynced_until_the_next_round_and_nothing_is_fenced(harness):
    end = harness.append(5000)
    harness.loop.elapse(ROUND_MS)
    harness.flusher.run_next()
    harness.disk.failures["sync"] = SHORTAGE
    harness.settle()
    assert not harness.queues.get("orders", 0).is_synced
    assert (harness.durability.is_fenced, harness.failures) == (False, [])
    assert "Too many open files" in harness.syncing.shortage
    assert harness.disk.done == ["log"], "no checkpoint covers what is not synced"
    harness.disk.failures.clear()
    assert harness.round() == ["queues", "checkpoint"]
    assert (harness.queues.get("orders", 0).is_synced, harness.syncing.shortage) == (True, None)
    assert harness.checkpoint().durable_offset == end


def test_group_commits_go_on_while_queues_wait_for_descriptors(harness):
    harness.append()
    harness.loop.elapse(ROUND_MS)
    harness.flusher.run_next()
    harness.disk.failures["sync"] = SHORTAGE
    harness.settle()
    harness.disk.failures.clear()
    end = harness.append(has_entry=False)
    harness.syncing.request()
    harness.settle()
    assert (harness.disk.done, harness.durable[-1]) == (["log", "log"], end)
    assert harness.syncing.shortage is not None


def test_a_group_commit_without_a_descriptor_is_tried_again_and_its_waiters_wait(harness):
    end = harness.append(has_entry=False)
    harness.durability.wait(end, harness.answers.append)
    harness.syncing.request()
    harness.disk.failures["sync"] = SHORTAGE
    harness.settle()
    assert (harness.durable, harness.answers, harness.failures) == ([], [], [])
    harness.disk.failures.clear()
    harness.loop.elapse(100)
    harness.settle()
    assert (harness.durable, harness.answers, harness.syncing.shortage) == ([end], [True], None)


def test_a_store_that_closes_without_a_descriptor_tells_who_waits_that_nothing_is_safe(harness):
    harness.durability.wait(harness.append(), harness.answers.append)
    harness.disk.failures["sync"] = SHORTAGE
    assert harness.syncing.sync_now() is False
    assert (harness.answers, harness.failures, harness.durability.is_fenced) == ([False], [], False)
    harness.disk.failures.clear()
    assert harness.syncing.sync_now() is True


def test_a_checkpoint_that_a_full_disk_refuses_is_written_by_the_next_round_and_fences_nothing(harness, caplog):
    end = harness.append(5000)
    harness.disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    assert harness.round() == ["log", "queues"]
    assert harness.round() == []
    assert (harness.durability.is_fenced, harness.failures) == (False, [])
    assert harness.syncing.checkpoint_failure == "the checkpoint cannot be written: [Errno 28] No space left on device"
    assert caplog.text.count("the checkpoint cannot be written") == 1
    harness.disk.failures.clear()
    assert harness.round() == ["checkpoint"]
    assert harness.checkpoint()[:5] == (5000, 5000, 0, end, end)
    assert harness.syncing.checkpoint_failure is None


def test_a_checkpoint_that_is_refused_at_the_end_leaves_no_claim_that_all_is_on_the_disk(harness):
    harness.append()
    harness.disk.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    assert harness.syncing.sync_now() is False
    assert not harness.durability.is_fenced


TIMEOUT_MS = 1000


@pytest.fixture
def late_harness(monkeypatch):
    harness = Harness(StoreCheckpoint())
    monkeypatch.setattr(syncing, "Flusher", lambda _loop: harness.flusher)
    loop: Any = harness.loop
    harness.syncing.attach(loop, commit_every_ms=None, checkpoint_every_ms=ROUND_MS, timeout_ms=TIMEOUT_MS)
    return harness


def look(harness, times):
    for _ in range(times):
        harness.loop.elapse(TIMEOUT_MS / 10)


def test_who_waits_longer_than_the_time_out_is_told_unknown_and_no_other(late_harness, caplog):
    end = late_harness.append(has_entry=False)
    late_harness.durability.wait(end, late_harness.answers.append)
    late_harness.syncing.request()
    look(late_harness, 3)
    late_harness.durability.wait(
        late_harness.append(has_entry=False), lambda is_durable: late_harness.answers.append("second")
    )
    look(late_harness, 7)
    assert (late_harness.answers, late_harness.syncing.hang) == ([], None)
    look(late_harness, 1)
    assert late_harness.answers == [None]
    look(late_harness, 1)
    assert late_harness.syncing.hang == "the disk hangs: a sync has not ended within 1000 ms"
    look(late_harness, 1)
    assert late_harness.answers == [None]
    look(late_harness, 1)
    assert late_harness.answers == [None, "second"]
    assert caplog.text.count("the disk hangs") == 1
    late_harness.settle()
    assert late_harness.syncing.hang is None
    assert (late_harness.durable[0], late_harness.answers) == (end, [None, "second"])


def test_a_disk_that_is_busy_with_one_task_after_another_does_not_hang(late_harness):
    for _ in range(30):
        late_harness.append(has_entry=False)
        late_harness.syncing.request()
        late_harness.loop.turn()
        look(late_harness, 1)
        late_harness.flusher.run_next()
    look(late_harness, 30)
    assert late_harness.syncing.hang is None
