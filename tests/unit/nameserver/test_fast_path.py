"""Claims about the fast path of the port: route queries first, then registrations where that is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.nameserver.fast_path import NameServerFastPath


class Part:
    """A part of the fast path that knows requests of one kind."""

    def __init__(self, known: bytes) -> None:
        self.known = known
        self.learnt: list[tuple[Any, ...]] = []

    def answer(self, data: bytes, answers: list[bytes], connection: Any) -> int:
        if not data.startswith(self.known):
            return 0
        answers.append(b"answer to " + self.known)
        return len(self.known)

    def learn(self, *told: Any) -> None:
        self.learnt.append(told)


@pytest.mark.parametrize(
    ("data", "size", "answers"),
    [
        (b"query", 5, [b"answer to query"]),
        (b"register", 8, [b"answer to register"]),
        (b"query register", 5, [b"answer to query"]),
        (b"unknown", 0, []),
    ],
)
def test_what_either_part_knows_is_answered(data: bytes, size: int, answers: list[bytes]):
    routes, registrations = Part(b"query"), Part(b"register")
    path: Any = NameServerFastPath(routes, registrations)  # type: ignore[arg-type]
    said: list[bytes] = []
    assert path.answer(data, said, None) == size
    assert said == answers


def test_both_parts_learn_from_every_answer():
    routes, registrations = Part(b"query"), Part(b"register")
    path: Any = NameServerFastPath(routes, registrations)  # type: ignore[arg-type]
    path.learn("frame", "command", "reply")
    assert routes.learnt == registrations.learnt == [("frame", "command", "reply")]


def test_without_registrations_only_queries_are_answered_and_learnt():
    routes = Part(b"query")
    path: Any = NameServerFastPath(routes, None)  # type: ignore[arg-type]
    assert path.answer(b"register", [], None) == 0
    assert path.answer(b"query", [], None) == 5
    path.learn("frame", "command", "reply")
    assert len(routes.learnt) == 1
