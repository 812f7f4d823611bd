"""Sends of saved messages, with answers made up here."""

import os

import pytest

from orbitmq.admin.backup.directory import RecordsWriter
from orbitmq.admin.backup.plan import QueueProgress, QueueStep
from orbitmq.admin.backup.sending import (
    _BATCH_SIZE,
    RestoreProgress,
    Sending,
    _take,
    encode_progress,
    forget_progress,
    load_progress,
    save_progress,
)
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, ConnectionFailed, StoreError
from orbitmq.model.route import MessageQueue
from orbitmq.wire.command import Command
from orbitmq.wire.headers import GetMaxOffset, PullMessage, SendMessageV2
from orbitmq.wire.messages.properties import format_properties, parse_properties
from orbitmq.wire.messages.record import format_record
from unit.admin.backup.support import encoded, queue_file, record


class Answers:
    """A broker of one queue that stores what it is sent, unless it is told to answer otherwise."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.stored = []
        self.keys = []
        self.asked = 0

    async def request(self, _address, header, body=b""):
        if not isinstance(header, SendMessageV2):
            return self.read(header)
        self.asked += 1
        code = self.codes.pop(0) if self.codes else 0
        if code is None:
            raise ConnectionFailed("cannot connect")
        if code not in (0, ResponseCode.FLUSH_DISK_TIMEOUT):
            return Command(code=code, remark="no")
        self.stored.append(body)
        self.keys.append(parse_properties(header.properties or "").get("UNIQ_KEY"))
        fields = {"msgId": "x", "queueId": str(header.queue_id), "queueOffset": str(len(self.stored) - 1)}
        return Command(code=code, ext_fields=fields)

    def read(self, header):
        end = str(len(self.stored))
        if not isinstance(header, PullMessage):
            return Command(code=0, ext_fields={"offset": end if isinstance(header, GetMaxOffset) else "0"})
        fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": end, "minOffset": "0", "maxOffset": end}
        records = [
            encoded(offset, body, properties={"UNIQ_KEY": key})
            for offset, (body, key) in enumerate(zip(self.stored, self.keys, strict=True))
        ]
        return Command(code=0, ext_fields=fields, body=b"".join(records[header.queue_offset :]))


def sending(tmp_path, answers, count=3, *, queues=1, skip_refused=False, properties=b"", keys=None):
    """The sending of so many messages in each queue, and its steps."""
    steps = []
    for queue_id in range(queues):
        name = f"messages-{queue_id}.gz"
        records = [
            format_record(
                topic="orders",
                body=b"%d" % number,
                properties=format_properties({"UNIQ_KEY": keys[number]}) if keys else properties,
                queue_id=queue_id,
                queue_offset=10 + number,
            )
            for number in range(count)
        ]
        writer = RecordsWriter(tmp_path / name)
        writer.write(b"".join(records))
        known = writer.close()._asdict() | {"records_size": sum(map(len, records))}
        file = queue_file(name, queue_id=queue_id, begin=10, end=10 + count, count=count, **known)
        steps.append(QueueStep(MessageQueue("orders", "b", queue_id), file, QueueProgress()))
    state = RestoreProgress("id", {"a": "b"}, {step.queue: step.place for step in steps})
    told = []
    work = Sending(
        answers,
        tmp_path,
        tmp_path / "p",
        {"b": "b:1"},
        state,
        is_resumed=keys is not None,
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
    place = state.queues[steps[0].queue]
    assert (place.next_old, place.next_new, place.sent) == (13, 3, 3)
    assert told[-1] == (3, 3)
    assert load_progress(tmp_path / "p", is_resumed=True) == state


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
    place = state.queues[steps[0].queue]
    assert (answers.stored, place.sent, list(place.skipped), told[-1]) == ([b"0", b"2"], 2, [11], (3, 3))
    assert load_progress(tmp_path / "p", is_resumed=True) == state


async def test_progress_is_written_before_the_next_batch_is_sent(tmp_path, monkeypatch):
    class Looking(Answers):
        async def request(self, address, header, body=b""):
            if self.asked in (0, 2, 4):
                saved = load_progress(tmp_path / "p", is_resumed=True)
                assert saved is not None
                assert [place.sent for place in saved.queues.values()] == [self.asked]
            return await super().request(address, header, body)

    monkeypatch.setattr("orbitmq.admin.backup.sending._BATCH_COUNT", 2)
    work, steps, *_ = sending(tmp_path, answers := Looking(), 5)
    await work.save()
    assert await work.send_all(steps) == []
    assert answers.asked == 5


@pytest.mark.parametrize("count", [0, 1, 3, 5])
async def test_a_batch_that_is_stored_in_part_is_sent_from_there_on(tmp_path, count):
    """Messages come back under the same unique key in a retry topic; those of others may be between."""
    keys = ["A", "B", "A", "A", "C"]
    work, steps, state, _ = sending(tmp_path, answers := Answers(), 5, keys=keys)
    answers.stored = [b"%d" % number for number in range(count)] + [b"of another producer"]
    answers.keys = [*keys[:count], "X"]
    assert await work.send_all(steps) == []
    assert answers.keys == [*keys[:count], "X", *keys[count:]]
    assert state.queues[steps[0].queue].sent == 5


async def test_a_refused_message_ends_its_own_queue_alone(tmp_path):
    work, steps, *_ = sending(tmp_path, answers := Answers(ResponseCode.MESSAGE_ILLEGAL), 1, queues=40)
    assert len(await work.send_all(steps)) == 1
    assert (len(answers.stored), work._lost) == (39, set())


async def test_properties_that_do_not_travel_are_a_refused_message(tmp_path):
    work, steps, *_ = sending(tmp_path, Answers(), properties=b"x\x01" + b"\xff" * 20_000)
    assert "the message at offset 10 with 1 bytes is refused: " in (await work.send_all(steps))[0]


async def test_large_records_are_read_ahead_by_their_size():
    taken = []

    def records():
        for number in range(100):
            taken.append(number)
            yield record(number, bytes(_BATCH_SIZE // 2))

    found = records()
    assert len(await _take(found)) == 2
    assert len(await _take(found)) == 2
    assert len(taken) == 4


async def test_a_broker_that_lost_messages_is_named(tmp_path):
    work, steps, *_ = sending(tmp_path, answers := Answers())
    steps[0].place.add(10, 7)
    assert await work.send_all(steps) == [
        "queue 0 of orders on b: the message at offset 11 is at 0 now, expected 8 at least: messages before it are lost; "
        "go on with --resume"
    ]
    assert work._lost == {"b"}
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
    assert work._lost == {"b"}


def progress(**fields):
    return RestoreProgress("id", {"a": "b"}, {MessageQueue("orders", "b", 1): QueueProgress(3, **fields)})


def test_progress_is_loaded_as_it_was_saved(tmp_path):
    saved = progress(next_old=12, next_new=9, sent=5, moved={7: 3}, skipped={11: "too large"})
    save_progress(tmp_path / "p", encode_progress(saved))
    assert load_progress(tmp_path / "p", is_resumed=True) == saved


def test_an_interrupted_restore_is_resumed_only_when_that_is_said(tmp_path):
    assert load_progress(tmp_path / "p", is_resumed=False) is None
    with pytest.raises(ConfigError, match="leave --resume out"):
        load_progress(tmp_path / "p", is_resumed=True)
    save_progress(tmp_path / "p", encode_progress(progress()))
    with pytest.raises(ConfigError, match="Go on with --resume"):
        load_progress(tmp_path / "p", is_resumed=False)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"{", "not JSON"), (b'{"format": 2}', "queues"), (b'{"backup": "id"}', "another version")]
)
def test_a_damaged_file_and_one_of_an_older_version_are_named(tmp_path, content, reason):
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(StoreError, match=f"cannot be used: .*{reason}"):
        load_progress(tmp_path / "p", is_resumed=True)


def test_a_link_or_a_pipe_in_its_place_is_refused_and_not_waited_for(tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(StoreError, match=f"{name} is not a file"):
            load_progress(tmp_path / name, is_resumed=True)


def test_nothing_is_left_of_a_restore_that_is_done(tmp_path):
    for _ in range(2):
        save_progress(tmp_path / "p", encode_progress(progress()))
    forget_progress(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []
