"""The forms in which `consume` writes a message: a template with %-tokens, or a JSON object on a line. Pure.

The body goes out byte for byte; everything else is UTF-8.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from orbitmq.cli.terminal.output import format_time, say
from orbitmq.cli.terminal.printable import printable, printable_json
from orbitmq.errors import HeaderError, InvalidArgument
from orbitmq.model.message import StoredMessage

if TYPE_CHECKING:
    from orbitmq.body_schemas import Schema

Formatter = Callable[[StoredMessage], bytes]

_TOKENS: dict[str, Formatter] = {
    "%": lambda message: b"%",
    "s": lambda message: bytes(message.body),
    "k": lambda message: " ".join(message.keys).encode(),
    "g": lambda message: (message.tag or "").encode(),
    "p": lambda message: printable_json(orjson.dumps(dict(message.properties))),
    "t": lambda message: message.topic.encode(),
    "b": lambda message: message.broker_name.encode(),
    "q": lambda message: b"%d" % message.queue_id,
    "o": lambda message: b"%d" % message.queue_offset,
    "T": lambda message: (format_time(message.stored_at_ms) or "").encode(),
    "i": lambda message: message.message_id.encode(),
}
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PART = re.compile(r"%(?P<token>.?)|\\x(?P<byte>[0-9a-fA-F]{2})|\\(?P<escape>.?)|(?P<text>[^%\\]+)", re.DOTALL)


def parse_template(text: str, schema: Schema | None = None) -> Formatter:
    r"""Return the formatter that a template such as `"%q %o %s\n"` spells.

    Args:
        schema: decodes the body that %s stands for; one that does not fit it is written as it is.

    Raises:
        InvalidArgument: a token or an escape that does not exist.
    """
    parts: list[Formatter] = []
    for found in _PART.finditer(text):
        if (token := found["token"]) is not None:
            if token not in _TOKENS:
                raise InvalidArgument("format", f"%{token}", f"% and one of {' '.join(_TOKENS)}")
            parts.append(_decoded(schema) if token == "s" and schema is not None else _TOKENS[token])
        elif (byte := found["byte"]) is not None:
            parts.append(_constant(bytes.fromhex(byte)))
        elif (escape := found["escape"]) is not None:
            if escape not in _ESCAPES:
                raise InvalidArgument(
                    "format", f"\\{escape}", r"\n, \t, \r, \0, \\ or two hexadecimal digits as in \x20"
                )
            parts.append(_constant(_ESCAPES[escape]))
        else:
            parts.append(_constant(found["text"].encode()))
    return lambda message: b"".join([part(message) for part in parts])


def format_json_line(message: StoredMessage, schema: Schema | None = None) -> bytes:
    """Return a message as one JSON object and a line's end; a body that is no UTF-8 is given in base64.

    Args:
        schema: decodes the body, too; one that does not fit it has a `schema_error`.
    """
    document: dict[str, Any] = {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "message_id": message.message_id,
        "tag": message.tag,
        "keys": message.keys,
        "properties": dict(message.properties),
        "born_at_ms": message.born_at_ms,
        "stored_at_ms": message.stored_at_ms,
    }
    if message.decode_error is not None:
        document["decode_error"] = message.decode_error
    body = bytes(message.body)
    try:
        document["body"] = body.decode()
    except UnicodeDecodeError:
        document["body_base64"] = base64.b64encode(body).decode()
    if schema is not None:
        try:
            document["decoded"] = schema(body)
        except HeaderError as error:
            document["schema_error"] = error.remark
    return printable_json(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))


def _decoded(schema: Schema) -> Formatter:
    def format_body(message: StoredMessage) -> bytes:
        body = bytes(message.body)
        try:
            return printable_json(orjson.dumps(schema(body)))
        except HeaderError as error:
            place = f"{message.broker_name} queue {message.queue_id} offset {message.queue_offset}"
            say(printable(f"{place}: {error.remark}"))
            return body

    return format_body


def _constant(content: bytes) -> Formatter:
    return lambda message: content
