"""Claims about differences between two registrations: found without parsing, and always what parsing would find."""

from __future__ import annotations

import random

from hypothesis import assume, given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.nameserver.registration.body_cache import split
from orbitmq.nameserver.registration.body_diff import DIFFERENCE_SIZE_MAX, HEAD, TAIL, find_difference, is_plain
from orbitmq.wire.bodies.registration import decode_registration, encode_registration
from orbitmq.wire.bodies.topic_table import RegisteredTopic


def part_of(topics: dict[str, TopicConfig]) -> bytes:
    return split(encode_registration(DataVersion(0, 0, 1), topics)).after


def parsed(part: bytes) -> dict[str, RegisteredTopic]:
    body = b'{"topicConfigSerializeWrapper":{"dataVersion":{}' + part
    return dict(decode_registration(body).topics)


def table(*names: str, **counts: int) -> dict[str, TopicConfig]:
    return {name: TopicConfig(topic=name, read_queue_count=counts.get(name, 8)) for name in names}


def difference(old: dict[str, TopicConfig], new: dict[str, TopicConfig]) -> set[str] | None:
    found = find_difference(part_of(old), part_of(new))
    return None if found is None else set(found)


def test_an_ordinary_registration_is_plain():
    assert is_plain(part_of(table("a", "b")), 2)
    assert is_plain(part_of({"a": TopicConfig(topic="a", attributes={"message.type": "FIFO"})}), 1)


@each_case(
    (part_of(table("a", "b")), 3),
    (part_of({"a": TopicConfig(topic="a", attributes={"x": "{"})}), 1),
    (part_of({"a": TopicConfig(topic="a", attributes={"x": "}"})}), 1),
    (part_of({"a": TopicConfig(topic="a", attributes={"x": '"attributes":{'})}), 1),
    (part_of(table("a"))[:-1], 1),
    (part_of(table("a")).replace(HEAD, b',"other":{'), 1),
    (HEAD + b'"a":{"perm":6},"a":{"perm":4}' + TAIL, 1),
    (HEAD + b'"a":{"perm":6,"x":{}}' + TAIL, 1),
    (part_of(table("attributes", "b")), 2),
    (HEAD + b'"attributes":{"perm":6},"b":{"perm":4,"x":"{}"}' + TAIL, 2),
    (HEAD + b'"b":{"perm":4,"x":"{"},"\\"attributes":{"perm":6,"y":"}"}' + TAIL, 2),
)
def test_anything_out_of_the_ordinary_is_not_plain(part: bytes, count: int):
    assert not is_plain(part, count)


def test_a_changed_an_added_and_an_inserted_topic_are_found():
    old = table("a", "b", "c")
    assert difference(old, table("a", "b", "c", b=9)) == {"b"}
    assert difference(old, table("a", "b", "c", "d")) == {"d"}
    assert difference(old, table("new", "a", "b", "c")) == {"new"}
    assert difference(old, table("a", "b", "bb", "c")) == {"bb"}
    assert difference(old, table("a", "b", "c", a=9, c=9)) == {"a", "c"}


@each_case(0, 1, 500, 998, 999)
def test_one_topic_of_a_thousand_is_found_wherever_it_stands(changed: int):
    names = [f"topic-{number}" for number in range(1_000)]
    old = table(*names)
    assert len(part_of(old)) > 2 * DIFFERENCE_SIZE_MAX
    assert difference(old, table(*names, **{names[changed]: 9})) == {names[changed]}


def test_too_large_a_difference_needs_a_parser():
    names = [f"topic-{number}" for number in range(1_000)]
    assert difference(table(*names), table(*names, **{names[0]: 9, names[-1]: 9})) is None
    assert difference(table("a", "z"), table("a", *names, "z")) is None


def test_a_topic_with_the_name_of_a_part_of_the_body_needs_a_parser():
    old = table("c", "d")
    assert difference(old, old | table("e")) == {"e"}
    assert difference(old, old | table("dataVersion")) is None
    assert difference(old, old | {"e": TopicConfig(topic="e", attributes={"dataVersion": "1"})}) is None
    assert difference(old, table("attributes") | old) is None


def test_a_removed_topic_needs_a_parser():
    assert difference(table("a", "b", "c"), table("a", "c")) is None
    assert difference(table("a", "b"), table("a", "x")) is None
    assert difference(table("a"), table()) is None
    assert difference(table(), table("a")) is None


@each_case(
    HEAD + b'"a":{"perm":6},"a":{"perm":4}' + TAIL,
    HEAD + b'"a":{"perm":"6"}' + TAIL,
    HEAD + b'"a":{"perm":7' + TAIL,
    HEAD + b'"a":7' + TAIL,
    HEAD + b'"a":{"perm":7,"x":{}}' + TAIL,
    HEAD + b'"a":{"perm":7},' + TAIL,
    HEAD + b'"a":{"perm":6}},"x":{"b":{"perm":6}' + TAIL,
    b"",
    HEAD,
    TAIL,
    HEAD + TAIL,
)
def test_what_is_no_list_of_entries_needs_a_parser(new: bytes):
    old = HEAD + b'"a":{"perm":6}' + TAIL
    assert is_plain(old, 1)
    assert find_difference(old, new) is None


names = st.sampled_from([f"t{number}" for number in range(12)])


def configs(*attributes: dict[str, str]) -> st.SearchStrategy[TopicConfig]:
    return st.builds(
        lambda count, chosen: TopicConfig(topic="x", read_queue_count=count, attributes=chosen),
        st.integers(1, 3),
        st.sampled_from([{}, {"a": "b"}, *attributes]),
    )


plain_tables = st.dictionaries(names, configs(), max_size=8)
changed_topics = st.dictionaries(
    names, configs({"a": '"},"t1":{"perm":1}'}, {"a": "{"}, {"a": "}"}, {"attributes": '":{'}), min_size=1, max_size=2
)


@given(plain_tables, changed_topics, st.booleans())
def test_a_found_difference_is_the_parsers(old: dict[str, TopicConfig], changes: dict[str, TopicConfig], first: bool):
    new = changes | old | changes if first else old | changes
    before, after = part_of(old), part_of(new)
    found = find_difference(before, after)
    assume(found is not None)
    assert found is not None
    assert parsed(before) | found == parsed(after)


@each_case(*range(5))
def test_injured_bodies_are_never_taken_for_another(seed: int):
    source = random.Random(seed)
    before = part_of(table(*(f"topic{number}" for number in range(40))))
    for _ in range(400):
        after = bytearray(before)
        for _ in range(source.randint(1, 3)):
            place = source.randrange(len(after))
            after[place : place + source.randint(0, 3)] = bytes(source.choices(b'{},:"a1\\', k=source.randint(0, 3)))
        found = find_difference(before, bytes(after))
        if found is not None:  # then the parser reads it as well, and finds the same
            assert parsed(before) | found == parsed(bytes(after)), f"seed {seed}"
