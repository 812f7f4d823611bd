"""Hashes of keys: those of Java, one by one and by the hundred."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.store.index.hashes import hash_keys, java_hash, key_hash, topic_hash

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("orders#k1", 0xE8B60784),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", 0x80000000),
        ("ü𝄞", ((0xFC * 31 + 0xD834) * 31 + 0xDD1E)),
    ],
)
def test_a_text_has_javas_hash(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_a_key_has_no_sign_and_the_smallest_number_becomes_0() -> None:
    assert key_hash("t", "p") == 112673
    assert key_hash("orders", "k1") == 0x100000000 - 0xE8B60784
    smallest = "a4$7H53KN"  # found by a search
    assert java_hash(f"#{smallest}") == 0x80000000
    assert key_hash("", smallest) == 0
    assert hash_keys([smallest.encode()], [topic_hash("")]) == [0]


@given(st.lists(st.tuples(TEXT, TEXT), max_size=40))
def test_many_keys_have_the_hashes_of_each(pairs: list[tuple[str, str]]) -> None:
    keys, starts = [key.encode() for _, key in pairs], [topic_hash(topic) for topic, _ in pairs]
    assert hash_keys(keys, starts) == [key_hash(topic, key) for topic, key in pairs]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 200])
def test_every_length_of_a_key_is_hashed_alike(length: int) -> None:
    keys = [("~" * length)[:-1] + chr(33 + number % 90) if length else "" for number in range(300)]
    found = hash_keys([key.encode() for key in keys], [topic_hash("orders")] * len(keys))
    assert found == [key_hash("orders", key) for key in keys]


def test_bytes_that_are_no_utf_8_are_hashed_as_java_reads_them() -> None:
    assert hash_keys([b"a\xffb"], [topic_hash("t")]) == [key_hash("t", "a\N{REPLACEMENT CHARACTER}b")]


def test_keys_of_one_length_and_of_several_topics_are_hashed_alike() -> None:
    topics = [f"t{number % 3}" for number in range(300)]
    keys = [f"{number:032d}" for number in range(300)]
    found = hash_keys([key.encode() for key in keys], [topic_hash(topic) for topic in topics])
    assert found == [key_hash(topic, key) for topic, key in zip(topics, keys, strict=True)]
