"""Bodies in Avro or Protobuf, decoded by a schema's file, for those who look at messages.

An Avro schema is its JSON file, `orders.avsc`; bodies are single datums without a container's header. A Protobuf schema is a set of
descriptors and the name of a message in it, `orders.desc:shop.Order`; `protoc --include_imports --descriptor_set_out=orders.desc` writes it.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, overload

from orbitmq.errors import ConfigError, HeaderError

Schema = Callable[[bytes], Any]
"""Returns a body as a value of JSON: an object, list, text, number, true, false or None.

Raises:
    HeaderError: the body does not fit the schema.
"""

_FILE_SIZE_MAX = 16 * 1024 * 1024
_VALUES_MAX = 200_000
"""Values of an Avro body, also those that take no byte: an array of nulls may say that it has 10^12."""
_DEPTH_MAX = 100
"""How deep values of Avro may lie in others, as in Protobuf; fastavro ends the process where its C stack does."""
_DECIMAL_SIZE_MAX = 1024
"""Bytes of a decimal: the time to format one grows with the square of its digits."""
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}

_MISSING = "an installed {} (pip install 'orbitmq[schemas]')"


@overload
def load_schema(text: str) -> Schema: ...
@overload
def load_schema(text: None) -> None: ...
@overload
def load_schema(text: str | None) -> Schema | None: ...
def load_schema(text: str | None) -> Schema | None:
    """Return what decodes bodies by the schema that `text` names, `orders.avsc` or `orders.desc:shop.Order`; None where it names none.

    Raises:
        ConfigError: the file cannot be read, is not a schema, or its library is not installed.
    """
    if text is None:
        return None
    path, _, name = text.partition(".desc:")
    try:
        if name:
            return _protobuf(_content(f"{path}.desc"), name)
        if not text.endswith(".avsc"):
            raise ConfigError("schema", text, "a file of Avro, orders.avsc, or of Protobuf, orders.desc:shop.Order")
        return _avro(json.loads(_content(text)))
    except ImportError:
        raise ConfigError("schema", text, _MISSING.format("protobuf" if name else "fastavro")) from None
    except ConfigError:
        raise
    except Exception as error:  # fastavro and protobuf have dozens of classes for a file that is not a schema
        raise ConfigError("schema", text, f"a schema that can be read ({error})") from None


def _content(path: str) -> bytes:
    with Path(path).open("rb") as file:
        content = file.read(_FILE_SIZE_MAX + 1)
    if len(content) > _FILE_SIZE_MAX:
        raise ValueError(f"it has more than {_FILE_SIZE_MAX} bytes")
    return content


def _avro(document: Any) -> Schema:
    import fastavro

    named: dict[str, Any] = {}
    schema = fastavro.parse_schema(document, named_schemas=named)

    def decode(body: bytes) -> Any:
        checked = _AvroCheck(body, named)
        checked.pass_value(schema)
        if left := len(body) - checked.at:
            raise ValueError(f"{left} bytes are left over")
        value = fastavro.schemaless_reader(io.BytesIO(body), schema, None)
        # JSON has no NaN and no infinities: they become text, as Protobuf's do.
        return json.loads(json.dumps(value, default=_plain), parse_constant=str)

    return _refusing(decode)


class _AvroCheck:
    """Passes over a datum within bounds, before fastavro reads it, which has none. Source: Avro 1.12, binary encoding.

    Args:
        named: the schema's named types.
    """

    def __init__(self, body: bytes, named: Mapping[str, Any]) -> None:
        self.at = 0
        """Bytes that were passed over."""
        self._body = body
        self._named = named
        self._count = 0

    def pass_value(self, schema: Any, depth: int = 0) -> None:
        """Pass over one value.

        Raises:
            ValueError: it is not of the schema, or exceeds a bound.
        """
        self._count += 1
        if self._count > _VALUES_MAX:
            raise ValueError(f"it has more than {_VALUES_MAX} values")
        if depth > _DEPTH_MAX:
            raise ValueError(f"its values lie more than {_DEPTH_MAX} deep")
        if isinstance(schema, list):
            self.pass_value(schema[self._index(len(schema))], depth + 1)
            return
        kind = schema["type"] if isinstance(schema, dict) else schema
        if not isinstance(kind, str):
            self.pass_value(kind, depth + 1)
        elif kind in _SIZES:
            self._pass_bytes(_SIZES[kind])
        elif kind in ("int", "long"):
            self._number()
        elif kind in ("bytes", "string"):
            size = self._number()
            if size > _DECIMAL_SIZE_MAX and schema != kind and schema.get("logicalType") == "decimal":
                raise ValueError(f"a decimal has {size} bytes, at most {_DECIMAL_SIZE_MAX}")
            self._pass_bytes(size)
        elif kind == "fixed":
            self._pass_bytes(schema["size"])
        elif kind == "enum":
            self._index(len(schema["symbols"]))
        elif kind in ("array", "map"):
            self._pass_blocks(schema, depth)
        elif kind in ("record", "error"):
            for field in schema["fields"]:
                self.pass_value(field["type"], depth + 1)
        else:
            self.pass_value(self._named[kind], depth + 1)

    def _pass_blocks(self, schema: Any, depth: int) -> None:
        while count := self._number():
            if count < 0:  # then the block's size follows, for readers that skip it
                self._number()
            for _ in range(abs(count)):
                if schema["type"] == "map":
                    self._pass_bytes(self._number())
                self.pass_value(schema["values" if schema["type"] == "map" else "items"], depth + 1)

    def _index(self, count: int) -> int:
        index = self._number()
        if not 0 <= index < count:
            raise ValueError(f"number {index} of {count} types or symbols")
        return index

    def _number(self) -> int:
        """Return a zigzag varint of at most 64 bits."""
        for size in range(1, 11):
            if self._body[self.at + size - 1 : self.at + size] < b"\x80":
                encoded = self._body[self.at : self.at + size]
                self._pass_bytes(size)
                value = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(encoded))
                if value >> 64:
                    break
                return value >> 1 ^ -(value & 1)
        raise ValueError("a number has more than 64 bits")

    def _pass_bytes(self, size: int) -> None:
        if not 0 <= size <= len(self._body) - self.at:
            raise ValueError(f"{size} bytes at {self.at}, and the body ends at {len(self._body)}")
        self.at += size


def _protobuf(content: bytes, name: str) -> Schema:
    from google.protobuf import json_format, message_factory
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(content).file:
        pool.Add(file)
    message_type = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    def decode(body: bytes) -> Any:
        return json_format.MessageToDict(message_type.FromString(body), preserving_proto_field_name=True)

    return _refusing(decode)


def _refusing(decode: Schema) -> Schema:
    """Return `decode` with one error for all that a body can do wrong."""

    def refuse(body: bytes) -> Any:
        try:
            return decode(body)
        except (
            Exception
        ) as error:  # the libraries raise whatever a body leads to: KeyError, EOFError, RecursionError, ...
            raise HeaderError(f"the body does not fit the schema: {type(error).__name__}: {error}") from None

    return refuse


def _plain(value: Any) -> str:
    """Return a value of Avro that JSON has no form for: bytes in base64, times and decimals as text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
