"""A replayed message and what it has; tests/spark/jobs/test_replay.py runs the job."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message
from orbitmq.spark.jobs.replay import message_again

PROPERTIES = {"own": "1", "__SHARDINGKEY": "s"}
ROW = {"body": b"b", "tags": "t", "keys": "k l", "flag": 3, "properties": PROPERTIES, "decodeError": None}


def test_a_message_is_as_its_sender_made_it():
    assert message_again(ROW, "new") == Message("new", b"b", "t", ("k", "l"), {"own": "1"}, 3, sharding_key="s")


def test_what_brokers_and_clients_noted_on_its_way_is_left_behind():
    noted = {"UNIQ_KEY": "7F", "DELAY": "3", "TIMER_DELAY_MS": "5", "REAL_TOPIC": "x", "TRAN_MSG": "true", "own": "1"}
    assert message_again(ROW | {"properties": noted}, "new").properties == {"own": "1"}


def test_a_message_may_have_nothing_but_a_body():
    row = dict.fromkeys(ROW) | {"body": b""}
    assert message_again(row, "new") == Message("new", b"")


@each_case(({"decodeError": "cut short"}, r"1 bytes.*cut short"), ({"body": None}, "body: 'NoneType'"))
def test_a_body_that_is_not_what_its_sender_sent_makes_no_message(changes, reason):
    with pytest.raises(InvalidArgument, match=reason):
        message_again(ROW | changes, "new")
