"""A handler's answer as a value, and its encoding as the frame that answers a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.wire.command import Command, encode_response
from orbitmq.wire.frame import LENGTH
from orbitmq.wire.header import encode_header

LARGE_BODY_SIZE = 32 * 1024
"""Bytes from which on a body is written from where it is, not copied behind its header first."""


class Reply(NamedTuple):
    """The answer to a request: `header` is a typed header, `ext_fields` what no type describes."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    header: object | None = None
    body: bytes = b""
    ext_fields: Mapping[str, str] | None = None


def encode_reply(command: Command, reply: Reply) -> bytes:
    """Return the frame that answers `command` with `reply`, in the header form of the request."""
    fields = reply.ext_fields
    if reply.header is not None:
        fields = encode_header(reply.header) if fields is None else {**fields, **encode_header(reply.header)}
    return encode_response(reply.code, command.opaque, reply.remark, fields, reply.body, command.serialize_type)


def encode_reply_parts(command: Command, reply: Reply) -> tuple[bytes, ...]:
    """Return the frame of `encode_reply`, a large body as a part of its own: a pull's megabytes are not copied again."""
    body = reply.body
    if len(body) < LARGE_BODY_SIZE:
        return (encode_reply(command, reply),)
    head = encode_reply(command, reply._replace(body=b""))
    # The head was encoded as a whole frame without a body: only its length has to be written again.
    return LENGTH.pack(len(head) - LENGTH.size + len(body)) + head[LENGTH.size :], body
