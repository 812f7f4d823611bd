"""One message: found by its id or a key, shown as text, JSON and hex, with its way through clients that trace."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from orbitmq.admin import AdminClient
from orbitmq.admin.traces import find_way
from orbitmq.dashboard.answers import Page
from orbitmq.dashboard.reading import summary
from orbitmq.errors import ClientError
from orbitmq.model.message import StoredMessage

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_SIZE_SHOWN = 64 * 1024
_HEX_WIDTH = 16


async def messages(request: Request, admin: AdminClient) -> Page:
    """Find messages of a topic by a message id or a key; without both, the form to ask with."""
    topic, wanted = request.query_params.get("topic", "").strip(), request.query_params.get("q", "").strip()
    found: list[StoredMessage] = []
    if topic and wanted:
        one = await _by_id(admin, topic, wanted)
        found = [one] if one is not None else await admin.messages_by_key(topic, wanted)
    values = {"topic": topic, "q": wanted, "messages": [summary(message) for message in found]}
    return Page("messages.html", "Messages", values)


async def _by_id(admin: AdminClient, topic: str, wanted: str) -> StoredMessage | None:
    try:
        return await admin.message_by_id(topic, wanted)
    except ClientError:
        return None  # a key is no id: brokers say so in different words


async def message(request: Request, admin: AdminClient) -> Page:
    """Show one message by its id."""
    topic, wanted = request.path_params["topic"], request.path_params["id"]
    found = await admin.message_by_id(topic, wanted)
    if found is None:
        return Page("error.html", "No message", {"error": f"{topic} has no message {wanted}"}, 404)
    return Page("message.html", wanted, {"message": _document(found), "way": await _way(admin, wanted)})


def _document(found: StoredMessage) -> dict[str, Any]:
    shown = found.body[:_SIZE_SHOWN]
    return {
        **summary(found),
        "born_at_ms": found.born_at_ms,
        "born_host": f"{found.born_host.ip}:{found.born_host.port}",
        "reconsume_times": found.reconsume_times,
        "physical_offset": found.physical_offset,
        "properties": dict(sorted(found.properties.items())),
        "decode_error": found.decode_error,
        "body_size": len(found.body),
        "is_cut": len(found.body) > len(shown),
        "text": shown.decode("utf-8", "replace"),
        "json": _pretty(shown),
        "hex": _hex(shown[: 4 * 1024]),
    }


def _pretty(body: bytes) -> str | None:
    """Return a body that is JSON with its parts on lines of their own; None when it is none."""
    try:
        return json.dumps(json.loads(body), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return None


def _hex(body: bytes) -> str:
    lines = []
    for at in range(0, len(body), _HEX_WIDTH):
        part = body[at : at + _HEX_WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:06x}  {part.hex(' '):<{3 * _HEX_WIDTH}} {text}")
    return "\n".join(lines)


async def _way(admin: AdminClient, message_id: str) -> list[dict[str, Any]]:
    """Return the steps that clients have traced, none where no client does."""
    try:
        steps = await find_way(admin, TRACE_TOPIC, message_id)
    except ClientError:
        return []
    return [
        {
            "step": step.name,
            "at_ms": step.at_ms,
            "cost_ms": step.cost_ms,
            "group": step.group,
            "status": step.status,
            "place": step.place,
        }
        for step in steps
    ]
