"""The sending of rows; tests/spark/jobs/test_replay.py and test_dead_letters.py run it all."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from orbitmq.client.send.batch import check_batch
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, InvalidArgument, JobFailed, RemoteRefused, SendFailed
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs import resending as module
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.resend_positions import RESENT_FROM, ResendProgress, Size, load_progress
from orbitmq.spark.jobs.resending import ATTEMPTS, ResendTask, resend
from orbitmq.spark.jobs.screen import Screen
from orbitmq.wire.bodies.topics import QueueStats

TARGETS = frozenset(MessageQueue("new", "a", number) for number in range(4))
SOURCE = MessageQueue("old", "b", 1)
ID = "0f"


class FakeTopic:
    """A topic as the job's clients see it: a list of messages for each queue; some sends fail."""

    def __init__(self):
        self.queues = {queue: [] for queue in TARGETS}
        self.fails = {}
        """How often a queue that has three messages still fails."""
        self.refused = set()
        """Bodies that no broker takes."""

    async def topic_stats(self, topic):
        return {queue: QueueStats(0, len(messages)) for queue, messages in self.queues.items() if queue.topic == topic}

    async def queues_of(self, topic):
        return tuple(self.queues)

    async def send_batch(self, messages, *, queue):
        check_batch(messages)
        for message in messages:
            await self.send(message, queue=queue)

    async def send(self, message, *, queue):
        if message.body in self.refused:  # the request, after those that have stored the messages before
            raise RemoteRefused(ResponseCode.MESSAGE_ILLEGAL, "the message is illegal", "a:1")
        if self.fails.get(queue) and len(self.queues[queue]) >= 3:
            self.fails[queue] -= 1
            raise SendFailed("no answer")
        self.queues[queue].append(message)

    @property
    def origins(self):
        return [m.properties[RESENT_FROM] for messages in self.queues.values() for m in messages]


class Rows:
    """Rows as a DataFrame has them."""

    def __init__(self, rows):
        self.rows = list(rows)

    def measure(self):
        return Size(len(self.rows), sum(len(row["body"]) for row in self.rows))


@contextmanager
def spilled(rows, directory, count):
    found = list(rows.rows)
    yield lambda: iter(found)


class Unreadable(Rows):
    """Rows that are read when asked for."""

    def __init__(self, rows):
        self.rows = rows

    def measure(self):
        return Size(2, 8)


def row(offset, key=None, body=b"body"):
    return {"topic": "old", "brokerName": "b", "queueId": 1, "queueOffset": offset, "key": key, "body": body}


@pytest.fixture
def cluster(monkeypatch):
    there = FakeTopic()

    class Client:
        def __init__(self, *_, **__):
            self.topic_stats, self.queues = there.topic_stats, there.queues_of
            self.send, self.send_batch = there.send, there.send_batch

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

    async def readable_stats(admin, topic):
        return await admin.topic_stats(topic)

    monkeypatch.setattr(module, "AdminClient", Client)
    monkeypatch.setattr(module, "readable_stats", readable_stats)
    monkeypatch.setattr(module, "Producer", Client)
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(module, "uuid4", lambda: SimpleNamespace(hex=ID))
    monkeypatch.setattr(
        module,
        "left_of",
        lambda spark, rows, done: (
            rows
            if isinstance(rows, Unreadable)
            else Rows(row for row in rows.rows if row["queueOffset"] >= done.get(SOURCE, 0))
        ),
    )
    monkeypatch.setattr(module, "measure", lambda rows: rows.measure())
    monkeypatch.setattr(module, "ordered", lambda rows, parts: rows)
    monkeypatch.setattr(module, "spilled", spilled)
    monkeypatch.setattr(
        module,
        "sent_since",
        lambda *_: SimpleNamespace(collect=lambda: [{"origin": origin} for origin in there.origins]),
    )
    return there


def message_of(row):
    return Message("new", b"%d" % row["queueOffset"], sharding_key=row["key"], **row.get("with", {}))


def work(rows, directory, *, rows_per_checkpoint=5, **changes):
    rows = rows if isinstance(rows, Rows) else Rows(rows)
    return ResendTask(rows, message_of, ["new"], directory, 1_000_000, rows_per_checkpoint)._replace(**changes)


def run(rows, directory, **changes):
    return resend(None, Cluster("n:1"), work(rows, directory, **changes), Screen())


def bodies(cluster):
    return [[int(message.body) for message in messages] for messages in cluster.queues.values() if messages]


def test_rows_without_a_key_stay_in_the_order_of_their_queue(cluster, tmp_path):
    before, after = run([row(offset) for offset in range(20)], tmp_path)
    assert bodies(cluster) == [list(range(20))]
    assert (before.done, after.done) == ({}, {SOURCE: 20})
    assert load_progress(tmp_path / "_progress.json") == after
    assert sum(after.ends.values()) == 20
    assert sum(after.began.values()) == 0


def test_a_key_has_one_queue_and_keys_have_several(cluster, tmp_path):
    run([row(offset, "abcdefgh"[offset % 8]) for offset in range(80)], tmp_path)
    found = bodies(cluster)
    assert len(found) > 1
    assert all(numbers == sorted(numbers) for numbers in found)
    assert len([{number % 8 for number in numbers} for numbers in found]) == len(found)
    assert sum(len({number % 8 for number in numbers}) for numbers in found) == 8


def test_what_is_there_twice_is_sent_once(cluster, tmp_path):
    run([row(0), row(1), row(1), row(0), row(2)], tmp_path)
    assert bodies(cluster) == [[0, 1, 2]]


def test_what_was_sent_after_the_checkpoint_is_not_sent_again(cluster, tmp_path):
    rows = [row(offset) for offset in range(10)]
    run(rows[:4], tmp_path)
    (queue,) = (queue for queue, messages in cluster.queues.items() if messages)
    origin = ResendProgress(ID).origin
    cluster.queues[queue] += [Message("new", b"4", properties={RESENT_FROM: origin(SOURCE, 4)})]
    run(rows, tmp_path)
    assert bodies(cluster) == [list(range(10))]


def test_after_a_failure_it_looks_what_is_there_and_goes_on(cluster, tmp_path, capsys):
    cluster.fails = dict.fromkeys(TARGETS, 2)
    run([row(offset, "ab"[offset % 2]) for offset in range(20)], tmp_path)
    assert sorted(number for numbers in bodies(cluster) for number in numbers) == list(range(20))
    assert all(numbers == sorted(numbers) for numbers in bodies(cluster))
    assert "tried again: no answer" in capsys.readouterr().out


def test_failures_without_end_end_the_job(cluster, tmp_path):
    cluster.fails = dict.fromkeys(TARGETS, 1_000)
    with pytest.raises(JobFailed, match=r"no answer\. Started again, it goes on"):
        run([row(offset) for offset in range(20)], tmp_path)
    assert min(cluster.fails.values()) == 1_000 - ATTEMPTS


UNSENDABLE = {
    "another tag's end": {"tag": "a||b"},
    "a key with 0x02": {"keys": ["a\x02"]},
    "a property without a text": {"properties": {"own": None}},
    "a name of RocketMQ's": {"properties": {"UNIQ_KEY": "7F"}},
    "long by RESENT_FROM alone": {"properties": {"own": "x" * 32_690}},
}


@pytest.mark.parametrize("broken", UNSENDABLE.values(), ids=UNSENDABLE)
def test_a_row_that_cannot_be_sent_is_left_out_named_and_counted(cluster, tmp_path, capsys, broken):
    rows = [row(offset) | ({"with": broken} if offset == 3 else {}) for offset in range(10)]

    _, after = run(rows, tmp_path)

    assert bodies(cluster) == [[0, 1, 2, 4, 5, 6, 7, 8, 9]]
    assert after.left_out == 1
    assert "left out: old/b/1/3: " in capsys.readouterr().out


def test_rows_left_out_are_counted_once_over_failures_and_runs_and_the_first_are_named(cluster, tmp_path, capsys):
    def message(row):
        if row["queueOffset"] % 2:
            raise InvalidArgument("body", "broken", "another")
        return message_of(row)

    cluster.fails = dict.fromkeys(TARGETS, 2)
    rows = [row(offset) for offset in range(40)]
    _, after = run(rows[:30], tmp_path, message=message)
    assert after.left_out == 15
    assert capsys.readouterr().out.count("left out: old/") == module.NAMED_MAX

    before, after = run(rows, tmp_path, message=message)

    assert (before.left_out, after.left_out) == (15, 20)
    assert bodies(cluster) == [list(range(0, 40, 2))]


def test_a_message_with_a_priority_goes_by_itself(cluster, tmp_path):
    run([row(offset) | ({"with": {"priority": 2}} if offset in (3, 4) else {}) for offset in range(10)], tmp_path)
    assert bodies(cluster) == [list(range(10))]


def test_a_message_that_a_broker_refuses_for_good_ends_the_job_with_its_place_and_the_way_on(cluster, tmp_path):
    cluster.refused = {b"7"}
    with pytest.raises(JobFailed, match=r"refuses old/b/1/7 .*message is illegal.*--skip-refused"):
        run([row(offset) for offset in range(20)], tmp_path)
    cluster.refused = set()

    _, after = run([row(offset) for offset in range(20)], tmp_path)

    assert (bodies(cluster), after.left_out) == ([list(range(20))], 0)


def test_messages_that_a_broker_refuses_for_good_are_left_out_where_that_is_asked_for(cluster, tmp_path, capsys):
    cluster.refused = {b"7", b"8", b"15"}

    _, after = run([row(offset) for offset in range(20)], tmp_path, skip_refused=True)

    assert bodies(cluster) == [[number for number in range(20) if number not in (7, 8, 15)]]
    assert after.left_out == 3
    assert "left out: old/b/1/15: " in capsys.readouterr().out


def test_files_that_cannot_be_read_end_the_job_with_one_sentence(cluster, tmp_path):
    def unreadable():
        yield row(0)
        raise PySparkException("the file is gone\nat java.lang.X")

    with pytest.raises(JobFailed, match=r"^the file is gone$"):
        run(Unreadable(unreadable()), tmp_path)
    assert load_progress(tmp_path / "_progress.json").done == {}


def test_a_topic_without_a_queue_that_can_be_read_is_refused(cluster, tmp_path):
    with pytest.raises(ConfigError, match="can be sent to and read"):
        resend(None, Cluster("n:1"), work([row(0)], tmp_path)._replace(topics=["closed"]), Screen())


def test_a_queue_that_fails_does_not_leave_others_under_way(cluster):
    first, second = sorted(TARGETS)[:2]
    ended = []

    async def send(queue, messages):
        if queue == first:
            raise SendFailed("no answer")
        for _ in range(5):
            await asyncio.sleep(0)
        ended.append(queue)

    with pytest.raises(SendFailed):
        asyncio.run(module._send_runs({first: [], second: []}, send))
    assert ended == [second]


def test_a_portion_of_large_messages_is_small(cluster, tmp_path, monkeypatch):
    held = []
    send_runs = module._send_runs

    async def noting(runs, send):
        held.append(sum(map(len, runs.values())))
        await send_runs(runs, send)

    monkeypatch.setattr(module, "_send_runs", noting)
    run([row(offset, body=bytes(3 * 2**20)) for offset in range(9)], tmp_path)
    assert held == [3, 3, 3], "a portion ends with the message that makes it 8 MiB"
    assert bodies(cluster) == [list(range(9))]


def test_a_checkpoint_is_noted_after_so_many_rows(cluster, tmp_path, monkeypatch):
    noted = []
    number = count()
    monkeypatch.setattr(module, "save_progress", lambda path, progress: noted.append((next(number), progress.done)))
    monkeypatch.setattr(module, "SendRate", lambda rate: SimpleNamespace(portion=2, wait_s=lambda *_: 0))
    run([row(offset) for offset in range(9)], tmp_path, rows_per_checkpoint=4)
    assert [done.get(SOURCE) for _, done in noted] == [None, 4, 8, 9]


class Frame:
    """A DataFrame that writes parts, by their numbers."""

    def __init__(self, parts):
        self.parts = parts
        self.write = self

    def mode(self, mode):
        assert mode == "overwrite"
        return self

    def options(self, **_):
        return self

    def parquet(self, url):
        directory = Path(url.removeprefix("file://"))
        directory.mkdir()
        for number, offsets in self.parts.items():
            write_rows(directory, number, offsets)


def write_rows(directory, number, offsets):
    properties = pa.array(
        [[("k", "v")] if offset % 2 else None for offset in offsets], pa.map_(pa.string(), pa.string())
    )
    table = pa.table({"queueOffset": pa.array(offsets, pa.int64()), "properties": properties})
    pq.write_table(table, directory / f"part-{number:05}-a1-c000.snappy.parquet")


def offsets(rows):
    return [row["queueOffset"] for row in rows]


def test_parts_are_read_in_the_order_of_their_numbers_any_number_of_times(tmp_path):
    frame = Frame({100_000: [7], 2: [1, 2], 99_999: [6], 0: [0], 10: [3, 4, 5]})
    with module.spilled(frame, tmp_path / "rows", 8) as read:
        assert offsets(read()) == offsets(read()) == list(range(8))


def test_properties_are_a_dict(tmp_path):
    write_rows(tmp_path, 0, [0, 1])
    assert [row["properties"] for row in module.read_rows(tmp_path)] == [{}, {"k": "v"}]


@pytest.mark.parametrize("count", [100, 20_000])
def test_no_more_rows_are_held_of_many_than_of_few(tmp_path, monkeypatch, count):
    write_rows(tmp_path, 0, range(count))
    decoded = []

    class Counting(pq.ParquetFile):
        def iter_batches(self, **options):
            for batch in super().iter_batches(**options):
                decoded.append(batch.num_rows)
                yield batch

    monkeypatch.setattr(module, "_open", Counting)
    rows = module.read_rows(tmp_path)
    for number in range(80):
        assert next(rows)["queueOffset"] == number
        assert sum(decoded) <= number + module.ROWS_PER_BATCH


def test_the_files_are_gone_at_the_end_whatever_it_is(tmp_path):
    with pytest.raises(ZeroDivisionError), module.spilled(Frame({0: [0]}), tmp_path / "rows", 1):
        raise ZeroDivisionError
    assert not (tmp_path / "rows").exists()


def test_rows_that_were_written_elsewhere_are_missed(tmp_path):
    with (
        pytest.raises(JobFailed, match=r"1 of 2 rows .*every executor has to see"),
        module.spilled(Frame({0: [0]}), tmp_path / "rows", 2),
    ):
        pass
