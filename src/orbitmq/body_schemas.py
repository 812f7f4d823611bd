"""Bodies in Avro or Protobuf, decoded by a schema's file, for those who look at messages.

An Avro schema is its JSON file, `orders.avsc`; bodies are single datums without a container's header. A Protobuf schema is a set of
descriptors and the name of a message in it, `orders.desc:shop.Order`; `protoc --include_imports --descriptor_set_out=orders.desc` writes it.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, overload

from orbitmq.errors import ConfigError, HeaderError

Schema = Callable[[bytes], Any]
"""Returns a body as a value of JSON: an object, list, text, number, true, false or None.

Raises:
    HeaderError: the body does not fit the schema.
"""

_MISSING = "it needs {}: pip install 'orbitmq[schemas]'"


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
            return _protobuf(Path(f"{path}.desc").read_bytes(), name)
        if not text.endswith(".avsc"):
            raise ConfigError("schema", text, "a file of Avro, orders.avsc, or of Protobuf, orders.desc:shop.Order")
        return _avro(json.loads(Path(text).read_bytes()))
    except ImportError as error:
        raise ConfigError("schema", text, _MISSING.format(error.name)) from None
    except ConfigError:
        raise
    except Exception as error:  # fastavro and protobuf have dozens of classes for a file that is not a schema
        raise ConfigError("schema", text, f"a schema that can be read ({error})") from None


def _avro(document: Any) -> Schema:
    import fastavro

    schema = fastavro.parse_schema(document)

    def decode(body: bytes) -> Any:
        stream = io.BytesIO(body)
        value = fastavro.schemaless_reader(stream, schema, None)
        if left := len(body) - stream.tell():
            raise ValueError(f"{left} bytes are left over")
        return json.loads(json.dumps(value, default=_plain))

    return _refusing(decode)


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
