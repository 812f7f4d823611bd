"""Messages are values, and a Ready has them in the order of its driver's work."""

from dataclasses import FrozenInstanceError, fields

import pytest

from orbitmq.raft import Appended, Heartbeat, Message, Position, Ready, VoteRequest


def test_messages_of_one_content_are_equal_and_cannot_be_changed():
    one, other = (VoteRequest(1, 2, 3, Position(4, 2)) for _ in range(2))
    assert one == other
    assert not one.is_transfer
    with pytest.raises(FrozenInstanceError):
        one.term = 4  # type: ignore[misc]


def test_messages_of_two_kinds_are_never_equal():
    messages: list[Message] = [Appended(1, 2, 3, 0), Heartbeat(1, 2, 3, 0)]
    assert messages[0] != messages[1]


def test_the_fields_stand_in_the_order_of_the_drivers_work():
    names = [field.name for field in fields(Ready)]
    assert names == ["hard_state", "snapshot", "entries", "must_sync", "messages", "committed", "reads"]
