"""Reading: ranges, limits, filters, times."""

import threading
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from orbitmq.model.message import Host
from orbitmq.store import Boundary, Draft, PropertyTest, ReadStatus, Store, StoreConfig
from orbitmq.store.log import commit_log
from orbitmq.store.queues import reading
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.properties import tag_code
from orbitmq.wire.messages.record import iter_records
from seeds import examples

T0 = 1_700_000_000_000


@pytest.fixture
def clock():
    return FakeClock(T0)


@pytest.fixture
def store(clock):
    config = StoreConfig(path=Path("/store"), segment_size=2048, consume_queue_units=5)
    return Store.open(config, store_host=Host("127.0.0.1", 1), clock=clock, disk=FakeDisk())


def fill(store, count, clock=None, tags="a", topic="orders"):
    for number in range(count):
        if clock:
            clock.advance(10)
        store.append(Draft(topic, 0, b"%d" % number, b"TAGS\x01%s\x02" % tags[number % len(tags)].encode()))


def bodies(result):
    return [int(bytes(record.body)) for record in iter_records(result.body)]


def test_a_read_gets_whole_records_and_says_where_to_go_on(store):
    fill(store, 40)
    found = store.read("orders", 0, 3, count_max=20)
    assert found.status is ReadStatus.FOUND
    assert bodies(found) == list(range(3, 23))
    assert (found.message_count, found.next_offset, found.min_offset, found.max_offset) == (20, 23, 0, 40)


def test_a_read_is_bounded_in_bytes_but_gets_one_message(store):
    fill(store, 5)
    size = len(store.read("orders", 0, 0, 1).body)
    assert bodies(store.read("orders", 0, 0, size_max=3 * size)) == [0, 1, 2]
    assert bodies(store.read("orders", 0, 0, size_max=3 * size - 1)) == [0, 1]
    assert bodies(store.read("orders", 0, 0, size_max=1)) == [0]


@pytest.mark.parametrize("count_max", [1, 2, 3, 4, 5, 100])
@pytest.mark.parametrize("tag_codes", [None, frozenset([tag_code("a")]), "a test", "a test and a code"])
def test_the_entries_of_missing_messages_lead_nowhere(store, count_max, tag_codes):
    """They are those of the next message: it comes once."""
    fill(store, 9)
    if isinstance(tag_codes, str):
        only = frozenset([tag_code("a")]) if "code" in tag_codes else None
        tag_codes = PropertyTest(lambda _: True, 1, only)
    queue = store._queues.get("orders", 0)
    entries = list(queue.entries(0, 9))
    queue.truncate(3)
    for number in (6, 7, 8):
        assert queue.replay(number, *entries[number])
    read = match if isinstance(tag_codes, PropertyTest) else Store.read
    found, offset = [], 0
    while offset < 9:
        result = read(store, "orders", 0, offset, count_max, 1 << 20, tag_codes)
        if result.status is ReadStatus.FOUND:
            found += bodies(result)
        assert result.next_offset > offset
        offset = result.next_offset
    assert (found, offset) == ([0, 1, 2, 6, 7, 8], 9)
    assert [store.message_at("orders", 0, number) is not None for number in range(9)] == [True] * 3 + [False] * 3 + [
        True
    ] * 3


def test_messages_of_other_queues_in_between_are_left_out(store):
    for _ in range(10):
        fill(store, 1)
        fill(store, 1, topic="bills")
    assert len(bodies(store.read("orders", 0, 0))) == 10


@settings(max_examples=examples(150), deadline=None)
@given(
    bodies=st.lists(st.tuples(st.booleans(), st.integers(0, 500)), min_size=1, max_size=40),
    synced=st.integers(0, 40),
    first=st.integers(0, 45),
    count_max=st.integers(1, 50),
    size_max=st.integers(1, 8_000),
    few=st.sampled_from([0, 256]),
)
def test_entries_that_are_read_in_one_pass_say_what_they_say_one_by_one(
    bodies, synced, first, count_max, size_max, few
):
    """Over segments, files of the queue, the memory behind them, and limits; neighbours as one slice, or not."""
    config = StoreConfig(path=Path("/store"), segment_size=2048, consume_queue_units=5)
    with pytest.MonkeyPatch.context() as patch:
        store = Store.open(config, store_host=Host("127.0.0.1", 1), clock=FakeClock(T0), disk=FakeDisk())
        for number, (is_other, size) in enumerate(bodies):
            store.append(Draft("bills" if is_other else "orders", 0, b"x" * size))
            if number == synced:
                store.flush()
        patch.setattr(commit_log, "FEW_RECORDS", few)
        bulk = store.read("orders", 0, first, count_max, size_max)
        patch.setattr(reading, "BULK_COUNT_MAX", 0)
        assert store.read("orders", 0, first, count_max, size_max) == bulk


@pytest.mark.parametrize("few", [0, 256])
def test_a_large_read_and_one_that_is_cut_look_at_no_entry_by_itself(store, monkeypatch, few):
    fill(store, 10)
    size = len(store.read("orders", 0, 0, 4).body)
    monkeypatch.setattr(commit_log, "FEW_RECORDS", few)
    test, entries = threading.current_thread(), ConsumeQueue.entries

    def refuse(*arguments):
        """Let brokers in other threads of this process read as they do: a session's clusters ask about transactions."""
        return pytest.fail("one by one") if threading.current_thread() is test else entries(*arguments)

    monkeypatch.setattr(ConsumeQueue, "entries", refuse)
    assert bodies(store.read("orders", 0, 0, 1000)) == list(range(10))
    assert bodies(store.read("orders", 0, 0, 1000, size_max=size)) == [0, 1, 2, 3]


def test_a_filter_passes_over_what_does_not_match(store):
    fill(store, 12, tags="abc")
    found = store.read("orders", 0, 0, tag_codes=frozenset([tag_code("b"), tag_code("c")]))
    assert bodies(found) == [1, 2, 4, 5, 7, 8, 10, 11]
    limited = store.read("orders", 0, 0, count_max=2, tag_codes=frozenset([tag_code("c")]))
    assert (bodies(limited), limited.next_offset) == ([2, 5], 8)


def test_a_filter_that_nothing_matches_moves_on_to_the_end(store):
    fill(store, 12)
    found = store.read("orders", 0, 2, tag_codes=frozenset([tag_code("z")]))
    assert (found.status, found.next_offset, found.body) == (ReadStatus.NO_MATCHED_MESSAGE, 12, b"")


def test_a_filter_looks_at_a_bounded_number_of_entries(store, monkeypatch):
    monkeypatch.setattr(reading, "_SCAN_COUNT_MAX", 7)
    fill(store, 12)
    found = store.read("orders", 0, 0, tag_codes=frozenset([tag_code("z")]))
    assert (found.status, found.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 7)


def test_what_cannot_be_read_is_told_apart(store):
    assert store.read("orders", 0, 0) == (ReadStatus.NO_MATCHED_QUEUE, 0, 0, 0, b"", 0)
    fill(store, 5)
    assert store.read("orders", 0, 5)[:2] == (ReadStatus.OFFSET_OVERFLOW_ONE, 5)
    assert store.read("orders", 0, 6)[:2] == (ReadStatus.OFFSET_OVERFLOW_BADLY, 5)
    assert store.read("orders", 0, -1)[:2] == (ReadStatus.OFFSET_TOO_SMALL, 0)


def test_a_queue_that_is_known_but_empty_says_so():
    config = StoreConfig(path=Path("/store"), segment_size=2048, flush=reading_sync())
    store = Store.open(config, store_host=Host("127.0.0.1", 1), clock=lambda: T0, disk=FakeDisk())
    store.append(Draft("orders", 0, b"not durable yet"))
    assert store.read("orders", 0, 0) == (ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, b"", 0)


def reading_sync():
    from orbitmq.store import FlushMode

    return FlushMode.SYNC


@pytest.mark.parametrize(
    ("timestamp", "lower", "upper"),
    [
        (0, 0, 0),
        (T0 + 10, 0, 0),
        (T0 + 11, 1, 0),
        (T0 + 20, 1, 1),
        (T0 + 49, 4, 3),
        (T0 + 120, 11, 11),
        (T0 + 121, 12, 11),
        (2**62, 12, 11),
    ],
)
def test_a_time_leads_to_the_messages_around_it(store, clock, timestamp, lower, upper):
    fill(store, 12, clock)
    assert store.offset_at("orders", 0, timestamp) == lower
    assert store.offset_at("orders", 0, timestamp, Boundary.UPPER) == upper


def test_of_several_messages_in_one_millisecond_the_outer_ones_are_meant(store, clock):
    fill(store, 3, clock)
    fill(store, 4)
    fill(store, 2, clock)
    assert store.offset_at("orders", 0, T0 + 30) == 2
    assert store.offset_at("orders", 0, T0 + 30, Boundary.UPPER) == 6


def test_a_queue_that_never_was_has_no_times(store):
    assert store.offset_at("orders", 0, T0) == 0
    assert store.earliest_stored_at_ms("orders", 0) == -1
    fill(store, 2)
    assert store.earliest_stored_at_ms("orders", 0) == T0


def test_the_earliest_time_is_the_first_messages_own(store, clock):
    fill(store, 3, clock, topic="bills")
    fill(store, 2, clock)
    assert store.earliest_stored_at_ms("bills", 0) == T0 + 10
    assert store.earliest_stored_at_ms("orders", 0) == T0 + 40


def asks(*wanted, cost=1, tag_codes=None):
    """Return a test that messages with one of these properties pass, and the list of what it was asked."""
    asked = []

    def matches(properties):
        asked.append(properties)
        return properties in wanted

    return PropertyTest(matches, cost, tag_codes), asked


def match(store, *where):
    return store.read_matching(*where)[0]


def tagged(*tags):
    return [b"TAGS\x01%s\x02" % tag.encode() for tag in tags]


def test_a_read_with_a_test_gets_the_messages_that_pass_it(store):
    fill(store, 40, tags="abcd")
    test, asked = asks(*tagged("b", "d"))
    found = match(store, "orders", 0, 4, 100, 100_000, test)
    assert bodies(found) == list(range(5, 40, 2))
    assert (found.status, found.next_offset, found.min_offset, found.max_offset) == (ReadStatus.FOUND, 40, 0, 40)
    assert asked == [*tagged("a", "b", "c", "d")] * 9


def test_a_read_with_a_test_ends_with_the_answers_last_message(store):
    fill(store, 40, tags="ab")
    size = len(store.read("orders", 0, 0, 1).body)
    test, asked = asks(*tagged("b"))
    found = match(store, "orders", 0, 0, 3, 100_000, test)
    assert (bodies(found), found.next_offset, len(asked)) == ([1, 3, 5], 6, 6)
    found = match(store, "orders", 0, 0, 100, 2 * size, test)
    assert (bodies(found), found.next_offset) == ([1, 3], 4)
    assert bodies(match(store, "orders", 0, 0, 100, 1, test)) == [1]


def test_only_messages_with_the_tags_codes_are_asked(store):
    fill(store, 10, tags="ab")
    test, asked = asks(*tagged("b"), tag_codes=frozenset([tag_code("b")]))
    assert bodies(match(store, "orders", 0, 0, 100, 100_000, test)) == [1, 3, 5, 7, 9]
    assert asked == tagged("b") * 5


@pytest.mark.parametrize(
    ("cost", "size", "count"), [(1, 0, 8), (2, 0, 4), (3, 0, 3), (100, 0, 1), (1, 100, 8), (1, 300, 4)]
)
def test_a_test_that_nothing_passes_ends_after_so_much_work(store, monkeypatch, cost, size, count):
    monkeypatch.setattr(reading, "WORK_MAX", 8)
    for _ in range(20):
        store.append(Draft("orders", 0, b"", b"p\x01" + b"x" * size + b"\x02"))
    test, asked = asks(cost=cost)
    found, work = store.read_matching("orders", 0, 2, 100, 100_000, test)
    assert work >= 8
    assert (found.status, found.next_offset, found.max_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 2 + count, 20)
    assert len(asked) == count


@each_case(*range(200))
def test_messages_that_are_asked_together_are_those_asked_one_by_one(seed, monkeypatch):
    """Over segments, files of the queue, unusual heads, long properties, and limits."""
    random = Random(seed)
    monkeypatch.setattr(reading, "WORK_MAX", random.choice([5, 20, 200]))
    monkeypatch.setattr(reading, "_CHUNK_COUNT", random.randint(1, 10))
    config = StoreConfig(
        path=Path("/store"), segment_size=random.choice([2048, 65_536]), consume_queue_units=random.choice([5, 100])
    )
    store = Store.open(config, store_host=Host("127.0.0.1", 1), clock=FakeClock(T0), disk=FakeDisk())
    synced = random.randint(0, 60)
    for number in range(40):
        properties = b"x\x01%s\x02TAGS\x01%s\x02" % (b"y" * random.choice([0] * 9 + [300]), random.choice([b"a", b"b"]))
        host = Host("::1" if random.random() < 0.05 else "127.0.0.1", 5)
        topic, body = random.choice(["orders", "orders", "bills"]), b"x" * random.choice([0, 100, 500])
        store.append(Draft(topic, 0, body, properties, born_host=host))
        if number == synced:
            store.flush()
    wanted = {b"x\x01%s\x02TAGS\x01b\x02" % (b"y" * filling) for filling in (0, 300)}
    passing = [index for index in range(reading._CHUNK_COUNT) if random.random() < 0.1]
    test = PropertyTest(
        wanted.__contains__,
        random.randint(1, 3),
        passing=random.choice(
            [None, lambda asked: [index for index, one in enumerate(asked) if one in wanted or index in passing]]
        ),
    )
    limits = random.randint(0, 12), random.choice([1, 3, 50]), random.choice([1, 500, 1_000, 2_500, 100_000])
    bulk = store.read_matching("orders", 0, *limits, test)
    with monkeypatch.context() as patched:
        patched.setattr(reading, "_match_bulk", lambda *_: (0, []))
        assert store.read_matching("orders", 0, *limits, test) == bulk


def test_most_messages_are_asked_together(store, monkeypatch):
    fill(store, 10, tags="ab")
    monkeypatch.setattr(reading, "properties_at", None)
    assert bodies(match(store, "orders", 0, 0, 4, 100_000, asks(*tagged("b"))[0])) == [1, 3, 5, 7]


def test_a_read_with_a_test_says_as_any_other_when_there_is_nothing(store):
    test, _ = asks()
    assert match(store, "orders", 0, 0, 1, 1, test) == (ReadStatus.NO_MATCHED_QUEUE, 0, 0, 0, b"", 0)
    fill(store, 5)
    assert match(store, "orders", 0, 5, 1, 1, test)[:2] == (ReadStatus.OFFSET_OVERFLOW_ONE, 5)
    assert match(store, "orders", 0, -1, 1, 1, test)[:2] == (ReadStatus.OFFSET_TOO_SMALL, 0)


@pytest.mark.parametrize("chunk_count", [1, 3, 5, 7, 256])
def test_a_read_with_a_test_looks_at_no_file_that_was_closed_meanwhile(tmp_path, monkeypatch, chunk_count):
    monkeypatch.setattr(reading, "_CHUNK_COUNT", chunk_count)
    config = StoreConfig(path=tmp_path, segment_size=8192, consume_queue_units=1, open_files_max=2)
    store = Store.open(config, store_host=Host("127.0.0.1", 1))
    fill(store, 300, tags="ab")
    store.flush()
    test, asked = asks(*tagged("b"))
    evicted = store.open_files.evicted_count
    assert bodies(match(store, "orders", 0, 0, 1000, 1_000_000, test)) == list(range(1, 300, 2))
    assert len(asked) == 300
    assert store.open_files.evicted_count > evicted + 100
    store.close()
