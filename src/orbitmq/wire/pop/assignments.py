"""The bodies of QUERY_ASSIGNMENT and SET_MESSAGE_REQUEST_MODE, and the content of messageRequestMode.json. Pure.

Source: Java QueryAssignmentRequestBody, QueryAssignmentResponseBody, SetMessageRequestModeRequestBody,
MessageRequestModeManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from orbitmq.errors import HeaderError
from orbitmq.model.group import MessageModel
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.document import int32, parse_body, text

PULL, POP = "PULL", "POP"
BODY_SIZE_MAX = 64 * 1024


class AssignmentQuery(NamedTuple):
    """A consumer that asks which queues it is to read."""

    topic: str
    group: str
    client_id: str
    strategy: str
    message_model: MessageModel


class RequestMode(NamedTuple):
    """How a group's consumers get a topic's messages.

    Args:
        mode: PULL or POP.
        share_queue_count: POP: how many of the others' shares each consumer reads as well; 0 or less: every queue.
    """

    topic: str
    group: str
    mode: str = PULL
    share_queue_count: int = 0


def decode_assignment_query(body: bytes) -> AssignmentQuery:
    """Parse what a consumer asks.

    Raises:
        HeaderError: the body is no such question.
    """

    def parse(document: dict[str, Any]) -> AssignmentQuery:
        return AssignmentQuery(
            text(document["topic"]),
            text(document["consumerGroup"]),
            text(document["clientId"]),
            text(document["strategyName"]),
            MessageModel(text(document["messageModel"])),
        )

    return parse_body("assignment query", body, parse, size_max=BODY_SIZE_MAX)


def encode_assignments(queues: Iterable[MessageQueue] | None, mode: str) -> bytes:
    """Return the queues that a consumer is to read; None: it stays with those that it has."""
    if queues is None:
        return b"{}"
    found = [{"messageQueue": _queue_document(queue), "mode": mode} for queue in queues]
    return orjson.dumps({"messageQueueAssignments": found})


def _queue_document(queue: MessageQueue) -> dict[str, Any]:
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def decode_request_mode(body: bytes) -> RequestMode:
    """Parse the mode that an administrator sets.

    Raises:
        HeaderError: the body is none.
    """
    return parse_body("message request mode", body, _parse_mode, size_max=BODY_SIZE_MAX)


def encode_request_mode(mode: RequestMode) -> bytes:
    """Encode the mode that an administrator sets."""
    return orjson.dumps(_mode_document(mode))


def _mode_document(mode: RequestMode) -> dict[str, Any]:
    return {
        "consumerGroup": mode.group,
        "mode": mode.mode,
        "popShareQueueNum": mode.share_queue_count,
        "topic": mode.topic,
    }


def _parse_mode(document: Mapping[str, Any]) -> RequestMode:
    mode = text(document.get("mode", PULL))
    if mode not in (PULL, POP):
        raise ValueError(f"mode is {mode!r:.40}, expected PULL or POP")
    return RequestMode(
        text(document["topic"]), text(document["consumerGroup"]), mode, int32(document.get("popShareQueueNum", 0))
    )


def format_request_modes(modes: Iterable[RequestMode]) -> bytes:
    """Return the content of messageRequestMode.json."""
    table: dict[str, dict[str, Any]] = {}
    for mode in modes:
        table.setdefault(mode.topic, {})[mode.group] = _mode_document(mode)
    return orjson.dumps({"messageRequestModeMap": table})


def parse_request_modes(content: bytes) -> list[RequestMode]:
    """Parse messageRequestMode.json.

    Raises:
        HeaderError: not such a file.
    """

    def parse(document: dict[str, Any]) -> list[RequestMode]:
        table = document.get("messageRequestModeMap") or {}
        return [_parse_mode(mode) for groups in table.values() for mode in groups.values()]

    try:
        return parse_body("messageRequestMode.json", content, parse)
    except RecursionError:
        raise HeaderError("messageRequestMode.json: nested too deep") from None
