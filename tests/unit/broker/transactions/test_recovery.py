from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from cases import each_case
from orbitmq.broker.transactions.recovery import find_window
from orbitmq.errors import Rejected
from orbitmq.model.topic import HALF_TOPIC, OP_TOPIC
from orbitmq.store import Draft, FlushMode
from orbitmq.wire.messages.properties import format_properties

from .world import COMMIT, ROLLBACK, World


def test_a_committed_message_whose_op_message_was_not_written_is_not_open_after_a_kill(world: World) -> None:
    halves = [world.prepare(b"%d" % number) for number in range(3)]
    world.end(halves[1])
    assert world.bodies(OP_TOPIC, 0) == []
    world.kill()
    assert world.open_bodies() == [b"0", b"2"]
    assert world.bodies(OP_TOPIC, 0) == []  # a start writes nothing: the disk may be full
    world.transactions.write_ops(world.clock())
    assert world.bodies(OP_TOPIC, 0) == [b"1,"]
    with pytest.raises(Rejected):
        world.end(halves[1])
    world.end(halves[0])
    assert world.bodies() == [b"1", b"0"]


def test_a_renewed_message_is_open_once_after_a_kill_and_answers_to_its_old_place(world: World) -> None:
    first = world.prepare(b"x")
    world.clock.advance(6_000)
    world.check()
    world.kill()
    assert world.open_bodies() == [b"x"]
    world.end(first)
    world.kill()
    assert world.open_bodies() == []
    assert world.bodies() == [b"x"]


def test_what_was_done_is_not_looked_at_again(world: World) -> None:
    halves = [world.prepare(b"%d" % number) for number in range(4)]
    for half in halves[:2]:
        world.end(half)
    world.transactions.write_ops(0)
    world.transactions.note_done()
    world.store.flush()
    world.transactions.keep_durable()
    world.kill()
    assert world.transactions.half_done == 2
    assert world.open_bodies() == [b"2", b"3"]


def test_an_offset_beyond_the_queues_end_is_the_end(world: World) -> None:
    world.prepare()
    world.offsets.commit("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0, 99, offset_max=99)
    world.kill()
    assert world.transactions.half_done == 1


def test_a_message_that_only_looks_committed_ends_no_transaction(world: World) -> None:
    world.prepare(b"half")
    for properties in ({"UNIQ_KEY": "another"}, {}):
        draft = Draft("t", 2, b"x", format_properties(properties), sys_flag=8, prepared_transaction_offset=0)
        world.store.append(draft)
        world.store.append(draft._replace(prepared_transaction_offset=5))
        world.store.append(draft._replace(prepared_transaction_offset=2**60))
    world.kill()
    assert world.open_bodies() == [b"half"]


def test_a_message_that_a_killed_java_broker_has_twice_is_open_once(world: World) -> None:
    first, other = world.prepare(b"x", UNIQ_KEY="K1"), world.prepare(b"y", UNIQ_KEY="K2")
    again = {"UNIQ_KEY": "K1", "TRANSACTION_CHECK_TIMES": "1"}
    for times in ("1", "2"):
        last = world.prepare(b"x", **{**again, "TRANSACTION_CHECK_TIMES": times})
    world.kill()
    assert world.open_bodies() == [b"y", b"x"]
    world.end(first)
    with pytest.raises(Rejected):
        world.end(last)
    world.end(other)
    assert world.bodies() == [b"x", b"y"]


@pytest.mark.parametrize("topic", [HALF_TOPIC, OP_TOPIC])
def test_damage_keeps_no_broker_from_starting(topic: str, caplog: pytest.LogCaptureFixture, world: World) -> None:
    halves = [world.prepare(b"%d" % number) for number in range(4)]
    for half in (halves[0], halves[2]):
        world.end(half, ROLLBACK)
    damaged = world.store.message_at(topic, 0, 1)
    assert damaged is not None
    segment = world.store._commit_log.log.segments[0]
    segment.buffer[damaged.physical_offset + 5] ^= 0xFF
    ended = find_window(world.store, world.offsets).ended
    assert "cannot be read" in caplog.text
    assert 0 in ended
    assert 3 not in ended
    assert (2 in ended) is (topic == HALF_TOPIC)


@pytest.mark.parametrize("text", ["0", "7", "x", "9" * 30])
def test_a_half_message_that_says_wrong_things_of_itself_ends_no_other(text: str, world: World) -> None:
    properties = format_properties({"TRAN_RENEWED_FROM": text, "PGROUP": "p"})
    world.store.append(Draft(HALF_TOPIC, 0, b"1", properties))
    world.kill()
    assert world.open_bodies() == [b"1"]


@each_case(*range(20))
def test_after_any_history_and_any_kill_each_message_is_delivered_at_most_once_and_none_is_lost(seed: int) -> None:
    random = Random(seed)
    world = World(random.choice([FlushMode.ASYNC, FlushMode.SYNC]), op_size_max=random.choice([1, 8, 4096]))
    ends: dict[bytes, int] = {}
    places: dict[bytes, list[object]] = {}
    number = 0
    for _ in range(60):
        move = random.random()
        if move < 0.35:
            body = b"%d" % number
            number += 1
            places[body] = [world.prepare(body, UNIQ_KEY=f"K{number}")]
            world.store.flush()
        elif move < 0.7 and places:
            body = random.choice(list(places))
            decision = random.choice([COMMIT, ROLLBACK])
            try:
                world.end(random.choice(places[body]), decision)
            except Rejected:
                pass
            else:
                assert body not in ends, seed
                ends[body] = decision
            world.store.flush()
        elif move < 0.85:
            world.clock.advance(random.choice([1_000, 6_000]))
            for renewed in world.check():
                places[bytes(renewed.half.body)].append(renewed.result)
        elif move < 0.93:
            world.transactions.note_done()
            world.store.flush()
            world.transactions.keep_durable()
        else:
            world.kill()
    world.store.flush()
    world.kill()
    delivered = world.bodies()
    assert sorted(delivered) == sorted(body for body, decision in ends.items() if decision == COMMIT), seed
    given_up = world.bodies("TRANS_CHECK_MAX_TIME_TOPIC", 0)
    undecided = sorted(body for body in places if body not in ends)
    assert sorted({*world.open_bodies(), *given_up}) == undecided, seed
    assert len(world.open_bodies()) == len(set(world.open_bodies())), seed


@each_case(*range(12))
def test_a_power_cut_loses_no_transaction_that_was_on_the_disk(seed: int) -> None:
    random = Random(seed)
    world = World()
    synced: dict[bytes, bool] = {}
    decided: dict[bytes, int] = {}
    places: dict[bytes, object] = {}
    for number in range(30):
        body = b"%d" % number
        places[body] = world.prepare(body, UNIQ_KEY=f"K{number}")
        if random.random() < 0.4 and decided.keys() != places.keys():
            chosen = random.choice([one for one in places if one not in decided])
            decision = random.choice([COMMIT, ROLLBACK])
            with suppress(Rejected):  # it was given up
                world.end(places[chosen], decision)
                decided[chosen] = decision
        if random.random() < 0.2:
            world.clock.advance(6_000)
            world.check()
        if random.random() < 0.2:
            world.store.flush()
            synced.update((one, one in decided) for one in places)
        world.transactions.note_done()
        world.transactions.keep_durable()
    world.disk = world.disk.after_power_cut(random)
    world.open()
    delivered = world.bodies()
    assert len(delivered) == len(set(delivered)), seed
    given_up = world.bodies("TRANS_CHECK_MAX_TIME_TOPIC", 0)
    for body, was_decided in synced.items():
        if was_decided:
            assert (body in delivered) == (decided[body] == COMMIT), (seed, body)
        elif body not in delivered and decided.get(body) != ROLLBACK:
            assert body in world.open_bodies() or body in given_up, (seed, body)
