"""Sends of saved messages, with answers made up here."""

import pytest

from orbitmq.admin.backup.directory import RecordsWriter
from orbitmq.admin.backup.offset_map import OffsetMap, Run
from orbitmq.admin.backup.progress import QueueProgress, RestoreProgress, load_progress
from orbitmq.admin.backup.sending import _BYTES_AT_A_TIME, Sending, _take, queue_of
from orbitmq.admin.backup.steps import QueueStep
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed
from orbitmq.wire.command import Command
from orbitmq.wire.messages.record import format_record
from unit.admin.backup.support import queue_file, record


class Answers:
    """A broker that stores what it is sent, unless it is told to answer otherwise."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.stored = []
        self.asked = 0

    async def send(self, _address, header, body):
        self.asked += 1
        code = self.codes.pop(0) if self.codes else 0
        if code is None:
            raise ConnectionFailed("cannot connect")
        if code not in (0, ResponseCode.FLUSH_DISK_TIMEOUT):
            return Command(code=code, remark="no")
        self.stored.append(body)
        fields = {"msgId": "x", "queueId": str(header.queue_id), "queueOffset": str(len(self.stored) - 1)}
        return Command(code=code, ext_fields=fields)


def sending(tmp_path, answers, count=3, *, queues=1, skip_refused=False, properties=b""):
    """The sending of so many messages in each queue, and its steps."""
    steps = []
    for queue_id in range(queues):
        name = f"messages-{queue_id}.gz"
        records = [
            format_record(
                topic="orders",
                body=b"%d" % number,
                properties=properties,
                queue_id=queue_id,
                queue_offset=10 + number,
            )
            for number in range(count)
        ]
        writer = RecordsWriter(tmp_path / name)
        writer.write(b"".join(records))
        known = writer.close()._asdict() | {"records_size": sum(map(len, records))}
        file = queue_file(name, queue_id=queue_id, begin=10, end=10 + count, count=count, **known)
        steps.append(QueueStep("b", file, 0, True))
    state = RestoreProgress("id", {"a": "b"}, {queue_of(step): QueueProgress(True, OffsetMap(0)) for step in steps})
    told = []
    work = Sending(
        answers,
        tmp_path,
        tmp_path / "p",
        {"b": "b:1"},
        state,
        is_resumed=False,
        skip_refused=skip_refused,
        progress=lambda *at: told.append(at),
    )
    return work, steps, state, told


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr("orbitmq.admin.backup.sending._BUSY_PAUSE_S", 0)


async def test_messages_are_sent_in_order_and_their_places_are_kept(tmp_path):
    work, steps, state, told = sending(tmp_path, answers := Answers())
    assert await work.send_all(steps) == []
    assert answers.stored == [b"0", b"1", b"2"]
    assert state.queues[queue_of(steps[0])].offsets.runs == (Run(10, 0, 3),)
    assert told[-1] == (3, 3)
    saved = load_progress(tmp_path / "p", is_resumed=True)
    assert saved is not None
    assert saved.queues[queue_of(steps[0])].offsets.count == 3


async def test_a_busy_broker_is_asked_again_and_one_that_refuses_is_not(tmp_path):
    busy = ResponseCode.SYSTEM_BUSY
    work, steps, *_ = sending(tmp_path, answers := Answers(busy, busy, 0, ResponseCode.MESSAGE_ILLEGAL))
    (problem,) = await work.send_all(steps)
    assert "answered code 13: no" in problem
    assert (answers.stored, answers.asked) == ([b"0"], 4)


async def test_a_refused_message_is_named_with_its_offset_and_size(tmp_path):
    work, steps, *_ = sending(tmp_path, Answers(0, ResponseCode.MESSAGE_ILLEGAL))
    assert await work.send_all(steps) == [
        "queue 0 of orders on b: the message at offset 11 with 1 bytes is refused: b:1 answered code 13: no; "
        "go on with --resume --skip-refused to leave it out"
    ]


async def test_a_refused_message_is_left_out_when_that_is_wanted(tmp_path):
    work, steps, state, told = sending(tmp_path, answers := Answers(0, ResponseCode.MESSAGE_ILLEGAL), skip_refused=True)
    assert await work.send_all(steps) == []
    offsets = state.queues[queue_of(steps[0])].offsets
    assert (answers.stored, offsets.runs, told[-1]) == ([b"0", b"2"], (Run(10, 0, 1), Run(12, 1, 1)), (3, 3))
    saved = load_progress(tmp_path / "p", is_resumed=True)
    assert saved is not None
    assert saved.queues[queue_of(steps[0])].offsets.skipped == offsets.skipped
    assert list(offsets.skipped) == [11]


async def test_a_message_that_is_left_out_is_noted_before_the_next_one_is_sent(tmp_path):
    """A resumed restore would look for it in the queue, not find it, and send those behind it once more."""

    class Looking(Answers):
        noted: list[int] = []

        async def send(self, address, header, body):
            if self.asked == 2:
                saved = load_progress(tmp_path / "p", is_resumed=True)
                assert saved is not None
                self.noted = [offset for place in saved.queues.values() for offset in place.offsets.skipped]
            return await super().send(address, header, body)

    work, steps, *_ = sending(tmp_path, answers := Looking(0, ResponseCode.MESSAGE_ILLEGAL), skip_refused=True)
    await work.save()
    await work.send_all(steps)
    assert answers.noted == [11]


async def test_a_refused_message_ends_its_own_queue_alone(tmp_path):
    work, steps, *_ = sending(tmp_path, answers := Answers(ResponseCode.MESSAGE_ILLEGAL), 1, queues=40)
    assert len(await work.send_all(steps)) == 1
    assert (len(answers.stored), work.lost) == (39, set())


async def test_properties_that_do_not_travel_are_a_refused_message(tmp_path):
    work, steps, *_ = sending(tmp_path, Answers(), properties=b"x\x01" + b"\xff" * 20_000)
    assert "the message at offset 10 with 1 bytes is refused: " in (await work.send_all(steps))[0]


async def test_large_records_are_read_ahead_by_their_size():
    taken = []

    def records():
        for number in range(100):
            taken.append(number)
            yield record(number, bytes(_BYTES_AT_A_TIME // 2))

    found = records()
    assert len(await _take(found)) == 2
    assert len(await _take(found)) == 2
    assert len(taken) == 4


async def test_a_broker_that_lost_messages_is_named(tmp_path):
    work, steps, *_ = sending(tmp_path, answers := Answers())
    work._state.queues[queue_of(steps[0])].offsets.add(10, 7)
    assert await work.send_all(steps) == [
        "queue 0 of orders on b: the message at offset 11 is at 0 now, expected 8 at least: messages before it are lost; "
        "go on with --resume"
    ]
    assert work.lost == {"b"}
    assert answers.stored == [b"1"]


async def test_a_broker_that_is_always_busy_ends_the_queue(tmp_path):
    work, steps, *_ = sending(tmp_path, answers := Answers(*[ResponseCode.SYSTEM_BUSY] * 100))
    assert "answered code 2" in (await work.send_all(steps))[0]
    assert answers.asked < 20


async def test_a_message_that_is_stored_and_not_yet_on_the_disk_is_sent_once(tmp_path):
    work, steps, *_ = sending(tmp_path, answers := Answers(ResponseCode.FLUSH_DISK_TIMEOUT))
    assert await work.send_all(steps) == []
    assert len(answers.stored) == 3


async def test_a_silent_broker_is_not_asked_for_each_further_queue(tmp_path):
    work, steps, *_ = sending(tmp_path, answers := Answers(*[None] * 100), queues=40)
    problems = await work.send_all(steps)
    assert len(problems) == answers.asked <= 16
    assert work.lost == {"b"}
