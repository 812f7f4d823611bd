"""The body of a batch of acks: Java's bytes, and bounds for all others."""

from __future__ import annotations

import orjson
import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.wire.pop.batch_acks import ACKS_MAX, BatchAck, decode_batch_acks, encode_batch_acks

ACK = BatchAck("g", "t", "0", 7, 3, 1, 5, 6, [7, 9, 77])
# Printed by BatchAckMessageRequestBody.encode, release 5.3.3, with the bits 0, 2 and 70.
JAVA = (
    b'{"acks":[{"b":"BQAAAAAAAABA","c":"g","it":6,"pt":5,"q":3,"r":"0","rq":1,"so":7,"t":"t"}],"brokerName":"broker-a"}'
)


def test_a_batch_travels_as_java_writes_it():
    assert encode_batch_acks("broker-a", [ACK]) == JAVA
    found = decode_batch_acks(JAVA)
    assert (found.broker_name, list(found.acks())) == ("broker-a", [ACK])


def test_an_old_clients_batch_has_long_names():
    body = orjson.dumps(
        {
            "acks": [
                {
                    "consumerGroup": "g", "topic": "t", "retry": "1", "startOffset": 7, "queueId": 3, "reviveQueueId": 1,
                    "popTime": 5, "invisibleTime": 6, "bitSet": "AQ==",
                }
            ]
        }
    )  # fmt: skip
    found = decode_batch_acks(body)
    assert (found.broker_name, list(found.acks())) == (None, [ACK._replace(retry="1", offsets=[7])])


@each_case(
    (b"", "batch ack"),
    (b"[]", "acks is missing"),
    (b'{"acks":{}}', "acks is missing"),
    (b'{"acks":[1]}', "1 is not an ack"),
    (JAVA.replace(b'"so":7', b'"so":-7'), "so is -7"),
    (JAVA.replace(b'"so":7', b'"so":99999999999999999999'), "so is"),
    (JAVA.replace(b'"r":"0"', b'"r":"9"'), "r is '9'"),
    (JAVA.replace(b'"t":"t"', b'"t":1'), "t is 1"),
    (JAVA.replace(b"BQAAAAAAAABA", b"BQ!"), "expected base64"),
    (JAVA.replace(b"BQAAAAAAAABA", b"A" * 10_000), "10000 characters"),
    (JAVA.replace(b"BQAAAAAAAABA", b"/////wE="), "b names 33 messages, a checkpoint has at most 32"),
    (b'{"acks":[' + b"{}," * ACKS_MAX + b"{}]}", f"{ACKS_MAX + 1} entries"),
)
def test_anything_else_is_refused_with_its_field(body: bytes, said: str):
    with pytest.raises(HeaderError) as refused:
        list(decode_batch_acks(body).acks())
    assert said in refused.value.remark
    assert len(refused.value.remark) < 200
