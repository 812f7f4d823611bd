"""The records of the revive topic: the bytes of fastjson 1.2.83, from Java's own classes."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.wire.pop import revive_log

KEY = revive_log.CheckpointKey("t", "g", 3, 7, 1_700_000_000_123, "broker-a")
# Printed by JSON.toJSONString of PopCheckPoint, AckMsg and BatchAckMsg, release 5.3.3.
JAVA_CHECKPOINT = (
    b'{"bm":0,"bn":"broker-a","c":"g","d":[0,2],"it":60000,"n":2,"pt":1700000000123,"q":3,"reviveTime":1700000060123,'
    b'"ro":0,"so":7,"t":"t"}'
)
JAVA_REWRITTEN = (
    b'{"bm":-1,"bn":"broker-a","c":"g","d":[0,2],"it":60000,"n":2,"pt":1700000000123,"q":3,"reviveTime":1700000060123,'
    b'"ro":0,"rp":"1","so":7,"t":"t"}'
)
JAVA_ACK = b'{"ao":9,"bn":"broker-a","c":"g","pt":1700000000123,"q":3,"so":7,"t":"t"}'
JAVA_BATCH = b'{"ao":-1,"aol":[7,9],"bn":"broker-a","c":"g","pt":1700000000123,"q":3,"so":7,"t":"t"}'


@each_case(
    (revive_log.PopCheckpoint(KEY, (7, 9), 60_000), JAVA_CHECKPOINT),
    (revive_log.PopCheckpoint(KEY, (7, 9), 60_000, acked=0xFFFF_FFFF, rewritten=1), JAVA_REWRITTEN),
)
def test_a_checkpoint_is_written_as_java_writes_it(checkpoint: revive_log.PopCheckpoint, body: bytes):
    assert revive_log.encode_checkpoint(checkpoint) == body
    assert revive_log.decode_checkpoint(body) == checkpoint


def test_a_checkpoint_is_due_when_its_time_is_over():
    assert revive_log.PopCheckpoint(KEY, (7,), 60_000).revive_at_ms == 1_700_000_060_123


def test_an_old_brokers_checkpoint_counts_its_messages():
    body = JAVA_CHECKPOINT.replace(b'"d":[0,2],', b"")
    assert revive_log.decode_checkpoint(body).offsets == (7, 8)


@each_case((revive_log.Ack(KEY, (9,)), "ack", JAVA_ACK), (revive_log.Ack(KEY, (7, 9)), "bAck", JAVA_BATCH))
def test_acks_are_written_as_java_writes_them(ack: revive_log.Ack, tag: str, body: bytes):
    assert revive_log.encode_ack(ack) == (tag, body)
    assert revive_log.decode_ack(body, "other") == ack


def test_an_ack_without_a_broker_is_this_brokers():
    body = JAVA_ACK.replace(b'"bn":"broker-a",', b"")
    assert revive_log.decode_ack(body, "broker-a") == revive_log.Ack(KEY, (9,))


def test_an_old_brokers_ack_has_long_names():
    body = b'{"ackOffset":9,"consumerGroup":"g","popTime":5,"queueId":3,"startOffset":7,"topic":"t"}'
    assert revive_log.decode_ack(body, "b") == revive_log.Ack(revive_log.CheckpointKey("t", "g", 3, 7, 5, "b"), (9,))


def test_records_have_unique_keys():
    assert revive_log.checkpoint_id(KEY) == "t@3@7@g@1700000000123@broker-a@ck"
    assert revive_log.ack_id(revive_log.Ack(KEY, (9,))) == "t@3@9@g@1700000000123@broker-a@ack"
    assert revive_log.ack_id(revive_log.Ack(KEY, (7, 9))) == "t@3@-1@g@1700000000123@broker-a@ack"


@each_case(
    b"", b"[]", b"{", b'{"t":"t"}', JAVA_CHECKPOINT.replace(b'"q":3', b'"q":-3'),
    JAVA_CHECKPOINT.replace(b'"so":7', b'"so":"7"'), JAVA_CHECKPOINT.replace(b"[0,2]", b"[0,-2]"),
    JAVA_CHECKPOINT.replace(b"[0,2]", b"[" + b"0," * 4096 + b"0]"), JAVA_CHECKPOINT.replace(b'"c":"g"', b'"c":""'),
    JAVA_CHECKPOINT.replace(b'"n":2', b'"n":100000'),
)  # fmt: skip
def test_a_damaged_checkpoint_is_refused(body: bytes):
    with pytest.raises(HeaderError):
        revive_log.decode_checkpoint(body)


@each_case(b"7", JAVA_ACK.replace(b'"ao":9', b'"ao":-9'), JAVA_BATCH.replace(b"[7,9]", b'"7,9"'), JAVA_ACK.replace(b'"ao":9,', b"")
)  # fmt: skip
def test_a_damaged_ack_is_refused(body: bytes):
    with pytest.raises(HeaderError):
        revive_log.decode_ack(body, "b")
