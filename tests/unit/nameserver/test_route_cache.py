"""Encoded routes, kept until the change that outdates them, and shared values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.nameserver.route_cache import EncodedRouteCache, Interned


def test_a_route_is_encoded_once_per_change():
    encoded: list[tuple[str, bool]] = []

    def encode(topic: str, standard: bool) -> bytes | None:
        encoded.append((topic, standard))
        return None if topic == "none" else topic.encode()

    answers = EncodedRouteCache(encode)
    assert [answers.get("t", True) for _ in range(3)] == [b"t"] * 3
    assert answers.get("t", False) == b"t"
    assert encoded == [("t", True), ("t", False)]
    answers.forget(["t", "unknown"])
    answers.get("t", True)
    assert answers.get("none", True) is None
    assert answers.get("none", True) is None
    assert encoded[2:] == [("t", True), ("none", True), ("none", True)]


def test_answers_are_kept_up_to_a_size_oldest_dropped_first():
    encoded: list[str] = []

    def encode(topic: str, standard: bool) -> bytes:
        encoded.append(topic)
        return topic.encode() * 40

    answers = EncodedRouteCache(encode, size_max=100)
    for topic in ("a", "b", "c", "b", "a"):
        answers.get(topic, True)
    assert encoded == ["a", "b", "c", "a"]


def test_topics_with_the_same_answer_share_its_bytes():
    answers = EncodedRouteCache(lambda topic, _: bytes(40) if topic != "z" else b"z" * 90, size_max=100)
    first = answers.get("t0", True)
    assert all(answers.get(f"t{number}", True) is first for number in range(50))
    answers.forget(["t0"])
    assert answers.get("t1", True) is first
    answers.get("z", True)  # too much together: the fifty go, one after another
    assert answers.get("t2", True) is not first


def test_more_topics_than_are_kept_are_forgotten_as_few_are():
    made: list[str] = []

    def encode(topic: str, standard: bool) -> bytes:
        made.append(topic)
        return topic.encode()

    answers = EncodedRouteCache(encode)
    for topic in ("a", "b"):
        answers.get(topic, True)
    answers.forget([f"other-{number}" for number in range(10)] + ["a"])
    for topic in ("a", "b"):
        answers.get(topic, True)
    assert made == ["a", "b", "a"]


def test_equal_bytes_have_one_value_until_the_last_one_gives_it_back():
    shared = Interned(lambda key: [key])
    first, second = shared.acquire(b"a" * 3), shared.acquire(bytes(bytearray(b"aaa")))
    assert first is second
    assert (len(shared), shared.size) == (1, 3)
    shared.release(b"aaa")
    assert shared.acquire(b"aaa") is first
    shared.release(b"aaa")
    shared.release(b"aaa")
    assert (len(shared), shared.size) == (0, 0)
    assert shared.acquire(b"aaa") is not first


def test_all_end_together():
    shared = Interned(len)
    shared.acquire(b"a")
    shared.clear()
    assert (len(shared), shared.size) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from([b"", b"a", b"bb"]), st.booleans())))
def test_the_size_is_that_of_what_is_held(steps: list[tuple[bytes, bool]]):
    shared, held = Interned(lambda key: key), list[bytes]()
    for key, takes in steps:
        if takes:
            held.append(shared.acquire(key))
        elif key in held:
            held.remove(key)
            shared.release(key)
        assert (shared.size, len(shared)) == (sum(map(len, set(held))), len(set(held)))
