"""Claims about encoded routes: kept until the change that outdates them, and shared where they are equal."""

from __future__ import annotations

from orbitmq.nameserver.cache.routes import RouteCache


def test_a_route_is_encoded_once_per_change():
    encoded: list[tuple[str, bool]] = []

    def encode(topic: str, standard: bool) -> bytes | None:
        encoded.append((topic, standard))
        return None if topic == "none" else topic.encode()

    answers = RouteCache(encode)
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

    answers = RouteCache(encode, size_max=100)
    for topic in ("a", "b", "c", "b", "a"):
        answers.get(topic, True)
    assert encoded == ["a", "b", "c", "a"]


def test_topics_with_the_same_answer_share_its_bytes():
    answers = RouteCache(lambda topic, _: bytes(40) if topic != "z" else b"z" * 90, size_max=100)
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

    answers = RouteCache(encode)
    for topic in ("a", "b"):
        answers.get(topic, True)
    answers.forget([f"other-{number}" for number in range(10)] + ["a"])
    for topic in ("a", "b"):
        answers.get(topic, True)
    assert made == ["a", "b", "a"]
