"""Request modes, kept in their file as Java's broker keeps them, and queues that the broker allocates."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each_case
from orbitmq.broker.groups import request_modes as module
from orbitmq.broker.groups.allocation import STRATEGIES, allocate_to_pop
from orbitmq.broker.groups.request_modes import RequestModes
from orbitmq.errors import Rejected
from orbitmq.model.route import MessageQueue
from orbitmq.wire.pop.assignments import RequestMode


def modes(path: Path, default: str = "PULL") -> RequestModes:
    return RequestModes(path / "messageRequestMode.json", default=default, share_queue_count=3)


def test_groups_have_the_default_until_set_otherwise(tmp_path: Path):
    assert modes(tmp_path).find("t", "g") == RequestMode("t", "g", "PULL", 0)
    popping = modes(tmp_path, "POP")
    assert popping.find("t", "g") == RequestMode("t", "g", "POP", 3)
    assert popping.find("%RETRY%g", "g").mode == "PULL"


def test_what_is_set_outlasts_a_restart(tmp_path: Path):
    mode = RequestMode("t", "g", "POP", 1)
    modes(tmp_path).set(mode)
    again = modes(tmp_path)
    assert again.find("t", "g") == mode
    assert again.find("t", "h").mode == "PULL"


def test_what_the_disk_refuses_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "no space left")

    kept = modes(tmp_path)
    monkeypatch.setattr(module, "replace_file", refuse)
    with pytest.raises(Rejected, match="no space left"):
        kept.set(RequestMode("t", "g", "POP"))
    assert kept.find("t", "g").mode == "PULL"


def test_there_are_no_more_than_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "COUNT_MAX", 1)
    kept = modes(tmp_path)
    kept.set(RequestMode("t", "g", "POP"))
    kept.set(RequestMode("t", "g", "PULL"))
    with pytest.raises(Rejected, match="no more are kept"):
        kept.set(RequestMode("t", "h", "POP"))


QUEUES = [MessageQueue("t", broker, number) for broker in ("a", "b") for number in range(3)]


def numbers(found: list[MessageQueue]) -> list[int]:
    return [QUEUES.index(queue) for queue in found]


def pop(members: list[str], member: str, share: int, queues: list[MessageQueue] = QUEUES) -> list[MessageQueue]:
    return allocate_to_pop(queues, members, member, share, STRATEGIES["AVG"])


def test_strategies_share_as_javas_do():
    assert numbers(STRATEGIES["AVG"](QUEUES, ["m", "n"], "n")) == [3, 4, 5]
    assert numbers(STRATEGIES["AVG_BY_CIRCLE"](QUEUES, ["m", "n"], "n")) == [1, 3, 5]


@each_case(-1, 0, 1, 2, 99)
def test_few_who_pop_read_any_queue_of_every_broker(share: int):
    assert pop(["m", "n"], "m", share) == [MessageQueue("t", "a", -1), MessageQueue("t", "b", -1)]


def test_many_who_pop_read_their_share_and_those_that_follow():
    members = ["m", "n", "o", "p"]
    assert numbers(pop(members, "m", 1)) == [0, 1, 2, 3]
    assert numbers(pop(members, "p", 1)) == [5, 0, 1]
    assert pop(members, "q", 1) == []


def test_more_members_than_queues_have_one_each():
    members = list("mnopq")
    assert [numbers(pop(members, member, 1, QUEUES[:2])) for member in members] == [[0], [1], [0], [1], [0]]
