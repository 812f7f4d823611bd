"""Bodies of assignments and modes: Java's bytes."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.model.group import MessageModel
from orbitmq.model.route import MessageQueue
from orbitmq.wire.pop import assignments

# Printed by the encode() of Java's classes, release 5.3.3.
JAVA_QUERY = b'{"clientId":"c","consumerGroup":"g","messageModel":"CLUSTERING","strategyName":"AVG","topic":"t"}'
JAVA_ANSWER = b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"b","queueId":-1,"topic":"t"},"mode":"POP"}]}'
JAVA_MODE = b'{"consumerGroup":"g","mode":"POP","popShareQueueNum":2,"topic":"t"}'


def test_bodies_travel_as_java_writes_them():
    assert assignments.decode_assignment_query(JAVA_QUERY) == assignments.AssignmentQuery(
        "t", "g", "c", "AVG", MessageModel.CLUSTERING
    )
    assert assignments.encode_assignments([MessageQueue("t", "b", -1)], "POP") == JAVA_ANSWER
    assert assignments.encode_assignments(None, "POP") == b"{}"
    assert assignments.decode_request_mode(JAVA_MODE) == assignments.RequestMode("t", "g", "POP", 2)
    assert assignments.decode_request_mode(
        assignments.encode_request_mode(assignments.RequestMode("t", "g", "POP", 2))
    ) == assignments.RequestMode("t", "g", "POP", 2)


def test_modes_are_kept_as_java_keeps_them():
    modes = [
        assignments.RequestMode("t", "g", "POP", 2),
        assignments.RequestMode("t", "h"),
        assignments.RequestMode("u", "g"),
    ]
    content = assignments.format_request_modes(modes)
    assert content.startswith(b'{"messageRequestModeMap":{"t":{"g":' + JAVA_MODE)
    assert assignments.parse_request_modes(content) == modes
    assert assignments.parse_request_modes(b"{}") == []


@each_case(b"", b"[]", b"{}", JAVA_QUERY.replace(b"CLUSTERING", b"ALL"), b"x" * 100_000)
def test_a_wrong_question_is_refused(body: bytes):
    with pytest.raises(HeaderError, match="assignment query"):
        assignments.decode_assignment_query(body)


@each_case(b"", b"{}", JAVA_MODE.replace(b"POP", b"PUSH"), JAVA_MODE.replace(b":2", b":99999999999"))
def test_a_wrong_mode_is_refused(body: bytes):
    with pytest.raises(HeaderError, match="message request mode"):
        assignments.decode_request_mode(body)


@each_case(b"", b'{"messageRequestModeMap":[1]}', b'{"messageRequestModeMap":{"t":{"g":{}}}}')
def test_a_damaged_file_is_told_of(content: bytes):
    with pytest.raises(HeaderError, match=r"messageRequestMode\.json"):
        assignments.parse_request_modes(content)
