"""Brokers that ask are told what the marker topic says."""

from __future__ import annotations

from collections.abc import Iterable

from cases import each_case
from orbitmq.client.transactions.decision import Decision
from orbitmq.clock import now_ms
from orbitmq.model.message import Host, StoredMessage
from orbitmq.net.loop import run
from orbitmq.spark.exactly_once.answers import READ_EVERY_S, Answers
from orbitmq.spark.exactly_once.commit_markers import PROPERTY, Abort, Entry, Marker
from orbitmq.spark.exactly_once.marker_topic import MarkerRecord


class Topic:
    """A marker topic in memory."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)
        self.reads = 0

    def read(self, begin: int = 0) -> list[MarkerRecord]:
        self.reads += 1
        return [MarkerRecord(offset, entry) for offset, entry in enumerate(self.entries)][begin:]

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)


MARKER = Marker("id", "q", 0, {"winner": ()}, {})


def half(attempt_id: str, born_at_ms: int | None = None) -> StoredMessage:
    return StoredMessage(
        topic="t",
        body=b"",
        properties={PROPERTY: attempt_id},
        queue_id=0,
        queue_offset=0,
        physical_offset=0,
        store_size=0,
        flag=0,
        sys_flag=0,
        born_at_ms=now_ms() if born_at_ms is None else born_at_ms,
        born_host=Host("127.0.0.1", 1),
        stored_at_ms=0,
        store_host=Host("127.0.0.1", 1),
        reconsume_times=0,
    )


def told(answers: Answers, message: StoredMessage) -> Decision:
    return run(answers.answer(message))


@each_case(
    ("q/0/winner/3", Decision.COMMIT),
    ("q/0/loser/3", Decision.ROLLBACK),
    ("q/1/winner/3", Decision.UNKNOWN),
    ("other/0/winner/3", Decision.UNKNOWN),
    ("nonsense", Decision.UNKNOWN),
)
def test_the_first_marker_of_the_batch_decides(attempt_id, decision):
    assert told(Answers(Topic([MARKER])), half(attempt_id)) is decision


def test_what_is_known_is_not_read_again_and_what_is_not_is_read_at_intervals():
    topic, seconds = Topic([MARKER]), [0.0]
    answers = Answers(topic, monotonic=lambda: seconds[0])
    for _ in range(3):
        assert told(answers, half("q/0/winner/1")) is Decision.COMMIT
    assert topic.reads == 1

    topic.append(Marker("id", "q", 1, {"next": ()}, {}))
    assert told(answers, half("q/1/next/1")) is Decision.UNKNOWN
    seconds[0] += READ_EVERY_S
    assert told(answers, half("q/1/next/1")) is Decision.COMMIT
    assert (topic.reads, answers.counts()[Decision.COMMIT]) == (2, 2)


def test_a_flood_of_questions_without_an_answer_yet_reads_the_topic_once():
    topic = Topic()
    answers = Answers(topic, monotonic=lambda: 0.0)

    assert {told(answers, half(f"q/0/a/{serial}")) for serial in range(50)} == {Decision.UNKNOWN}
    assert topic.reads == 1


def test_an_abandoned_half_message_is_aborted_before_it_is_rolled_back():
    topic = Topic()
    answers = Answers(topic, abandon_after_ms=1000)

    assert told(answers, half("q/0/a/1")) is Decision.UNKNOWN
    assert told(answers, half("q/0/a/1", now_ms() - 1000)) is Decision.ROLLBACK
    assert topic.entries == [Abort("q", 0, frozenset("a"))]


def test_a_marker_that_comes_before_the_abort_counts():
    class Late(Topic):
        def append(self, entry: Entry) -> None:
            self.entries += [Marker("id", "q", 0, {"a": ()}, {}), entry]

    assert told(Answers(Late(), abandon_after_ms=0), half("q/0/a/1", 0)) is Decision.COMMIT
