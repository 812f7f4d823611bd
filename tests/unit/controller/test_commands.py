"""Commands as bytes, there and back, and bytes that are none."""

from itertools import product

import orjson
import pytest

from cases import each_case
from orbitmq.controller.commands import (
    SIZE_MAX,
    AlterSyncSet,
    ApplyBrokerId,
    CleanBrokers,
    Command,
    ElectMaster,
    RegisterBroker,
    decode_command,
    encode_command,
)
from orbitmq.errors import Rejected, UnreadableState
from unit.controller.groups import living

HEARD = living(2, m1=(3, 77, 5), unheard=[3])
COMMANDS: list[Command] = [
    ApplyBrokerId(cluster="c", name="orders", broker_id=1, address="a:1", check_code="a:1;9"),
    RegisterBroker(name="orders", broker_id=1, address="a:1"),
    ElectMaster(name="orders", living=HEARD, now_ms=5),
    ElectMaster(name="orders", asker=2, designated=2, is_unclean=True, living=HEARD, now_ms=5),
    AlterSyncSet(name="orders", master=1, master_epoch=2, sync_set=frozenset([2, 1]), sync_set_epoch=3, living=HEARD),
    CleanBrokers(name="orders", living=HEARD, now_ms=5),
    CleanBrokers(name="orders", broker_ids=frozenset([3]), is_forced=True, living=HEARD, now_ms=5),
]


@each_case(*COMMANDS)
def test_a_command_survives_the_log(command):
    assert decode_command(encode_command(command)) == command


def test_equal_commands_have_equal_bytes():
    one, two = living(1, 2), living(2, 1)
    assert encode_command(ElectMaster(name="a", living=one, now_ms=1)) == encode_command(
        ElectMaster(name="a", living=two, now_ms=1)
    )


@each_case(*product(["cluster", "name", "address", "check_code"], ["", "x" * 256, "\ud800"]))
def test_a_text_that_no_node_would_read_is_refused_before_it_is_written(field, value):
    values = {"cluster": "c", "name": "n", "broker_id": 1, "address": "a:1", "check_code": "a;1", field: value}
    with pytest.raises(Rejected) as refused:
        encode_command(ApplyBrokerId(**values))
    assert refused.value.code == 2005


def test_more_ids_than_a_group_may_have_are_refused_before_they_are_written():
    with pytest.raises(Rejected, match="at most 64"):
        encode_command(CleanBrokers(name="a", broker_ids=frozenset(range(65)), living=living(), now_ms=1))


def documents():
    good = orjson.loads(encode_command(COMMANDS[4]))
    yield b"", "parse"
    yield b"[]", "parse"
    yield b"{" * 100_000, "bytes"
    yield orjson.dumps({**good, "v": 2}), "version 2"
    yield orjson.dumps({**good, "type": "Nothing"}), "Nothing"
    yield orjson.dumps({key: value for key, value in good.items() if key != "master"}), "master"
    for field, value in [("master", "1"), ("master", -1), ("master", True), ("sync_set", 5), ("sync_set", [[]])]:
        yield orjson.dumps({**good, field: value}), "parse"
    for value in [[], [{}, []], [{"x": [1, 2, 3]}, []], [{"1": [1, 2, 3, 4]}, []], [[], []], None]:
        if value != [{}, []]:
            yield orjson.dumps({**good, "living": value}), "parse"


@each_case(*list(documents()))
def test_bytes_that_are_no_command_are_told_apart_from_everything_else(data, why):
    with pytest.raises(UnreadableState, match=why):
        decode_command(data)


def test_a_command_has_a_size():
    with pytest.raises(UnreadableState, match="limit"):
        decode_command(b" " * (SIZE_MAX + 1))


def test_too_many_living_members_are_no_command():
    document = orjson.loads(encode_command(COMMANDS[2]))
    document["living"] = [{str(key): [1, 1, 1] for key in range(65)}, []]
    with pytest.raises(UnreadableState, match="at most 64 living"):
        decode_command(orjson.dumps(document))
