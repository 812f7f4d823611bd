"""LMQs of a store: each has all messages that name it, under numbers without gaps, whatever happens."""

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument, StoreError
from orbitmq.store import Draft, FlushMode, Store, StoreConfig
from orbitmq.store.inspection.check import Sizes, StoreCheck
from orbitmq.store.inspection.rebuild import rebuild_store
from orbitmq.store.inspection.salvage_rules import draft_of
from orbitmq.store.lmq import lmq_offsets
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import iter_records
from unit.store.parts import HOST, ROOT, store_of

A, B, C = "%LMQ%a", "%LMQ%b", "%LMQ%c"


def naming(*names, topic="orders", queue_id=0, body=b"", **fields):
    return Draft(topic, queue_id, body, f"INNER_MULTI_DISPATCH\x01{','.join(names)}\x02TAGS\x01t".encode(), **fields)


def light_store(disk=None, **changes):
    return store_of(disk, lmq_max=3, **changes)


def bodies(store, name, start=0):
    found = store.read(name, 0, start, 1000, 1 << 20).body
    return [bytes(record.body) for record in iter_records(found)]


@each_case(*FlushMode)
def test_a_message_is_in_its_own_queue_and_in_those_that_it_names(flush):
    store, heard = light_store(flush=flush), []
    store.on_arrived.append(lambda *message: heard.append(message[:3]))
    store.append(naming(A, B, body=b"1"))
    store.append(Draft("orders", 0, b"2"))
    store.append(naming(A, queue_id=7, body=b"3"))
    if flush is FlushMode.SYNC:
        assert store.max_offset(A, 0) == 0
    store.flush()
    assert (bodies(store, A), bodies(store, B)) == ([b"1", b"3"], [b"1"])
    assert bodies(store, A, 1) == [b"3"]
    assert store.message_at("orders", 7, 0).properties.endswith(b"TAGS\x01t\x02INNER_MULTI_QUEUE_OFFSET\x011\x02")
    assert sorted(heard) == sorted(
        [("orders", 0, 0), (A, 0, 0), (B, 0, 0), ("orders", 0, 1), ("orders", 7, 0), (A, 0, 1)]
    )


@each_case("%RETRY%g", "SCHEDULE_TOPIC_XXXX")
def test_a_message_that_waits_gets_no_number(topic):
    store = light_store()
    store.append(naming(A, topic=topic))
    assert store.max_offset(A, 0) == 0
    assert store.message_at(topic, 0, 0).properties == naming(A).properties
    store.append(naming(A, sys_flag=4))
    assert store.max_offset(A, 0) == 0


def test_without_lmqs_names_are_kept_and_nothing_more():
    store = store_of()
    store.append(naming(A))
    assert store.message_at("orders", 0, 0).properties == naming(A).properties
    assert store.topics() == ["orders"]


@each_case(("orders",), (A, ""), (A, A), ("%LMQ%a/b",), tuple(f"%LMQ%{number}" for number in range(1200)))
def test_names_that_no_lmq_has_are_refused(names):
    with pytest.raises(InvalidArgument, match="INNER_MULTI_DISPATCH"):
        light_store().lmq.check(naming(*names).properties)


def test_properties_keep_room_for_the_longest_number_and_for_a_checksum():
    lmq = light_store(segment_size=1 << 16).lmq
    for number, length in ((0, 1), (1, 19)):
        free = (
            32_767
            - 32
            - length
            - len(b"KEYS\x01\x02INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x01\x02")
        )
        fits, tight = (
            b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02KEYS\x01" + b"k" * size + b"\x02" for size in (free, free + 1)
        )
        if number:
            lmq.check(fits)
            with pytest.raises(InvalidArgument, match="INNER_MULTI_DISPATCH"):
                lmq.check(tight)
        else:
            assert lmq.number(Draft("orders", 0, b"", fits))[1]
            assert not lmq.number(Draft("orders", 0, b"", tight))[1]


def test_there_may_be_so_many_lmqs_and_no_more():
    store = light_store()
    store.append(naming(A, B))
    store.lmq.check(naming(A, B, C).properties)
    with pytest.raises(StoreError, match=r"LMQ_CONSUME_QUEUE_NUM_EXCEEDED.* limit 3"):
        store.lmq.check(naming(C, "%LMQ%d").properties)
    store.delete_topic(A)
    store.lmq.check(naming(C, "%LMQ%d").properties)


def test_what_was_checked_before_it_waited_is_stored_whatever_it_names():
    store = light_store()
    store.append(naming("orders", A, "%LMQ%/", A, body=b"1"))
    store.append(naming(A, body=b"2"))
    assert bodies(store, A) == [b"1", b"2"]
    many = naming(*(f"%LMQ%{number:0240}" for number in range(132)), body=b"3")
    store = light_store(segment_size=1 << 16)
    store.append(many)
    assert store.message_at("orders", 0, 0).properties == many.properties


@each_case(*FlushMode)
def test_a_topic_of_either_kind_may_be_deleted_while_messages_wait_for_their_sync(flush):
    store = light_store(flush=flush)
    store.append(naming(A, B, body=b"1"))
    store.delete_topic(A)
    store.append(naming(A, B, body=b"2"))
    store.delete_topic("orders")
    store.append(naming(A, B, body=b"3"))
    store.flush()
    assert (bodies(store, A), bodies(store, B)) == ([b"2", b"3"], [b"1", b"2", b"3"])
    assert store.max_offset("orders", 0) == 1


def test_messages_of_a_deleted_lmq_do_not_take_numbers_of_the_new_one():
    store = light_store(flush=FlushMode.SYNC)
    store.append(naming(A, body=b"1"))
    store.delete_topic(A)
    store.append(naming(A, body=b"2"))
    store.flush()
    assert bodies(store, A) == [b"2"]
    store.append(naming(A, body=b"3"))
    store.delete_topic(A)
    store.flush()
    assert store.max_offset("orders", 0) == 3
    assert store.topics() == ["orders"]


def told(root):
    return [(finding.path, finding.what) for finding in StoreCheck(root, SIZES).run()]


class World:
    """A store on a fake disk, and what was sent to it."""

    def __init__(self, seed):
        self.random, self.clock, self.disk = Random(seed), FakeClock(1000), FakeDisk()
        self.sent = {A: [], B: [], C: []}
        self.flush = self.random.choice(list(FlushMode))
        self.store = self.open()

    def open(self):
        self.store = light_store(
            self.disk, clock=self.clock, segment_size=2048, consume_queue_units=8, flush=self.flush
        )
        return self.store

    def send(self):
        names = [name for name in self.sent if self.random.random() < 0.4]
        body = b"%d" % self.random.randrange(10**6)
        self.clock.advance(self.random.choice([0, 0, 700]))
        self.store.append(
            naming(*names, queue_id=self.random.randrange(2), body=body) if names else Draft("orders", 0, body)
        )
        for name in names:
            self.sent[name].append(body)

    def delete(self, topic):
        self.store.delete_topic(topic)
        if topic in self.sent:
            self.sent[topic] = []

    def check(self):
        for name, sent in self.sent.items():
            found = bodies(self.store, name)
            assert found == sent[: len(found)], name
            self.sent[name] = found


@each_case(*range(40))
def test_lmqs_are_whole_after_every_end_of_the_process(seed):
    world = World(seed)
    for _ in range(6):
        for _ in range(world.random.randrange(30)):
            world.send()
            if world.random.random() < 0.05:
                world.store.flush()
            if world.random.random() < 0.02:
                world.delete(world.random.choice([A, B, C, "orders"]))
        if world.random.random() < 0.3:
            world.store.close()
        else:
            world.disk = world.disk.after_kill()
        stored = {name: list(sent) for name, sent in world.sent.items()}
        world.open()
        assert world.store.recovery_report.unplaced_count == 0
        world.check()
        assert world.sent == stored  # a kill takes nothing that was appended


@each_case(*range(10))
def test_a_lost_lmq_is_rebuilt(seed):
    world = World(seed)
    for _ in range(60):
        world.send()
    world.store.close()
    world.disk.remove(ROOT / "consumequeue" / A)
    world.open()
    assert world.store.recovery_report.rebuilt == [(A, 0)]
    world.check()
    assert len(world.sent[A]) == world.store.max_offset(A, 0) > 10


SIZES = Sizes(segment_size=4096, queue_file_size=160)


def made_store(root: Path, **changes) -> Store:
    config = StoreConfig(path=root, segment_size=4096, consume_queue_units=8, lmq_max=3)
    return Store.open(replace(config, **changes), store_host=HOST, clock=FakeClock(1000))


def test_a_check_knows_lmqs_and_a_rebuilding_writes_them(tmp_path):
    store = made_store(tmp_path)
    for number in range(20):
        store.append(naming(A, *[B] * (number % 2), body=b"%d" % number))
    store.close()
    assert told(tmp_path) == []
    path = tmp_path / "consumequeue" / A / "0" / f"{160:020}"
    before = path.read_bytes()
    path.write_bytes(bytes(40) + before[40:])
    assert [found for found, _what in told(tmp_path)] == [str(path.relative_to(tmp_path))]
    assert rebuild_store(tmp_path, SIZES).unplaced_count == 0
    assert path.read_bytes() == before
    assert told(tmp_path) == []
    shutil.rmtree(tmp_path / "consumequeue" / A)
    rebuild_store(tmp_path, SIZES)
    assert path.read_bytes() == before


def test_a_deleted_lmq_does_not_come_back(tmp_path):
    store = made_store(tmp_path)
    store.append(naming(A, B))
    store.delete_topic(A)
    store.append(naming(A, B, body=b"2"))
    store.close()
    assert told(tmp_path) == []
    rebuild_store(tmp_path, SIZES)
    assert told(tmp_path) == []
    store = made_store(tmp_path)
    assert (bodies(store, A), store.max_offset(B, 0)) == ([b"2"], 2)
    store.close()


def test_lmqs_outlive_a_start_without_them(tmp_path):
    store = made_store(tmp_path)
    store.append(naming(A, body=b"1"))
    store._close_files()  # as a kill: the entry was never written
    store = made_store(tmp_path, lmq_max=0)
    store.append(naming(A, body=b"2"))
    assert bodies(store, A) == [b"1"]
    store.close()
    store = made_store(tmp_path)
    store.append(naming(A, body=b"3"))
    assert bodies(store, A) == [b"1", b"3"]
    store.close()


def test_a_message_that_is_brought_back_gets_new_numbers():
    store = light_store()
    store.append(naming(A))
    record = store.message_at("orders", 0, 0)
    assert lmq_offsets("orders", record.properties) == {A: 0}
    assert lmq_offsets("orders", draft_of(record, b"0").properties) == {}
    store.append(draft_of(record, b"0"))
    assert store.max_offset(A, 0) == 2
