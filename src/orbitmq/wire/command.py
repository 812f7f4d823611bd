"""Commands: a request or response whose header is still untyped, in both header forms.

Source: docs/formats/wire_frame.md; Java RemotingCommand, RocketMQSerializable.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

import orjson

from orbitmq.codes import LanguageCode, Version
from orbitmq.errors import FrameError
from orbitmq.wire.frame import PREFIX, Frame

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2

_BINARY_HEAD = Struct(">hBhii")
_SHORT = Struct(">h")
_INT = Struct(">i")
_LANGUAGES = {code.value: code.name for code in LanguageCode}
_RESPONSE = (
    b'{"code":%%d,%%b"flag":%d,"language":"PYTHON","opaque":%%d,%%b"serializeTypeCurrentRPC":"JSON","version":%d}'
    % (FLAG_RESPONSE, Version.V5_3_3)
)
_new = tuple.__new__
_JSON = 0
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


class SerializeType(IntEnum):
    """The form of a header; a response mirrors its request's."""

    JSON = 0
    ROCKETMQ = 1


class Command(NamedTuple):
    """One request or response; `ext_fields` holds the typed header's fields as text."""

    code: int
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext_fields: Mapping[str, str] | None = None
    body: bytes = b""
    language: str = "PYTHON"
    version: int = Version.V5_3_3
    serialize_type: int = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        """True for the answer to a request."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """True for a one-way request."""
        return bool(self.flag & FLAG_ONEWAY)


def encode_command(command: Command) -> bytes:
    """Return the whole frame of `command`, length prefix included."""
    if command.serialize_type == SerializeType.ROCKETMQ:
        header = _encode_binary(command)
    else:
        header = _encode_json(command)
    size, body = len(header), command.body
    mark = command.serialize_type << 24 | size
    if body:
        return b"".join((PREFIX.pack(4 + size + len(body), mark), header, body))
    return PREFIX.pack(4 + size, mark) + header


def encode_response(
    code: int,
    opaque: int,
    remark: str | None,
    ext_fields: Mapping[str, str] | None,
    body: bytes = b"",
    serialize_type: int = SerializeType.JSON,
) -> bytes:
    """Return the whole frame of a response: `encode_command`, shorter, since there is one for every request."""
    if serialize_type:
        return encode_command(
            Command(code, opaque, FLAG_RESPONSE, remark, ext_fields, body, serialize_type=serialize_type)
        )
    fields = b"" if ext_fields is None else b'"extFields":%b,' % orjson.dumps(ext_fields)
    text = b"" if remark is None else b'"remark":%b,' % orjson.dumps(remark)
    header = _RESPONSE % (code, fields, opaque, text)
    size = len(header)
    return b"".join((PREFIX.pack(4 + size + len(body), size), header, body))


def decode_command(frame: Frame) -> Command:
    """Return the command that `frame` carries.

    Raises:
        FrameError: the header is not a RocketMQ header.
    """
    if frame.serialize_type == SerializeType.JSON:
        return _decode_json(frame)
    return _decode_binary(frame)


def _encode_json(command: Command) -> bytes:
    header: dict[str, Any] = {"code": command.code}
    if command.ext_fields is not None:
        header["extFields"] = command.ext_fields
    header["flag"] = command.flag
    header["language"] = command.language
    header["opaque"] = command.opaque
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = command.version
    return orjson.dumps(header)


def _decode_json(frame: Frame) -> Command:
    try:
        header = orjson.loads(frame.header)
        code, opaque, flag = header["code"], header.get("opaque", 0), header.get("flag", 0)
        ext_fields = header.get("extFields")
        if ext_fields is not None:
            "".join(ext_fields.values())  # one pass in C that fails on whatever is not text
        version = header.get("version", 0)
        # The exact type, because JSON's `true` is an int to isinstance.
        if (
            type(code) is type(opaque) is type(flag) is type(version) is int
            and _INT32_MIN <= opaque <= _INT32_MAX
            and _INT32_MIN <= code <= _INT32_MAX
        ):
            remark, language = header.get("remark"), header.get("language", "OTHER")
            # A named tuple's own constructor takes twice as long, and this runs for every request.
            return _new(Command, (code, opaque, flag, remark, ext_fields, frame.body, language, version, _JSON))
    except (ValueError, KeyError, AttributeError, TypeError):
        pass  # the slower decoder finds out whether it means anything
    return _decode_loose_json(frame)


def _decode_loose_json(frame: Frame) -> Command:
    """Decode a header whose values have unusual types, as fastjson would coerce them."""
    try:
        header = orjson.loads(frame.header)
        ext_fields = header.get("extFields")
        if ext_fields is not None:
            # fastjson's HashMap<String, String> turns numbers and booleans into text, and drops nulls.
            ext_fields = {name: _text(value) for name, value in ext_fields.items() if value is not None}
        numbers = [int(header.get(name) or 0) for name in ("opaque", "flag", "version")]
        code, remark = int(header["code"]), header.get("remark")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FrameError(f"not a JSON header of a RocketMQ command: {error!r:.200}") from None
    if not (_fits(code) and all(map(_fits, numbers))):
        raise FrameError("a number in the header is out of the 32-bit range")
    opaque, flag, version = numbers
    language = str(header.get("language") or "OTHER")
    return Command(
        code, opaque, flag, None if remark is None else _text(remark), ext_fields, frame.body, language, version
    )


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def _fits(number: int) -> bool:
    return _INT32_MIN <= number <= _INT32_MAX


def _encode_binary(command: Command) -> bytes:
    language = LanguageCode[command.language] if command.language in LanguageCode.__members__ else LanguageCode.OTHER
    remark = (command.remark or "").encode()
    parts: list[bytes] = []
    for name, value in (command.ext_fields or {}).items():
        name_bytes, value_bytes = name.encode(), value.encode()
        parts += (_SHORT.pack(len(name_bytes)), name_bytes, _INT.pack(len(value_bytes)), value_bytes)
    fields = b"".join(parts)
    return b"".join(
        (
            _BINARY_HEAD.pack(command.code, language, command.version, command.opaque, command.flag),
            _INT.pack(len(remark)),
            remark,
            _INT.pack(len(fields)),
            fields,
        )
    )


def _decode_binary(frame: Frame) -> Command:
    header = frame.header
    try:
        code, language, version, opaque, flag = _BINARY_HEAD.unpack_from(header)
        remark, position = _take(header, _BINARY_HEAD.size, _INT)
        fields, position = _take(header, position, _INT)
        # Bytes behind the last field mean a sender that counts otherwise.
        if position != len(header):
            raise FrameError(f"{len(header) - position} bytes after the binary header's end")
        ext_fields = _decode_fields(fields)
        return Command(
            code,
            opaque,
            flag,
            remark.decode() if remark else None,
            ext_fields,
            frame.body,
            _LANGUAGES.get(language, "OTHER"),
            version,
            SerializeType.ROCKETMQ,
        )
    except (StructError, UnicodeDecodeError) as error:
        raise FrameError(f"not a binary header of a RocketMQ command: {error}") from None


def _decode_fields(fields: bytes) -> dict[str, str] | None:
    if not fields:
        return None
    ext_fields: dict[str, str] = {}
    position = 0
    while position < len(fields):
        name, position = _take(fields, position, _SHORT)
        value, position = _take(fields, position, _INT)
        ext_fields[name.decode()] = value.decode()
    return ext_fields


def _take(data: bytes, position: int, length: Struct) -> tuple[bytes, int]:
    """Return the length-prefixed bytes at `position` and where they end; the length is checked before the slice."""
    (size,) = length.unpack_from(data, position)
    start = position + length.size
    if not 0 <= size <= len(data) - start:
        raise FrameError(f"a field of {size} bytes where {len(data) - start} are left")
    return data[start : start + size], start + size
