"""A contract: what bodies of a topic are declared to be, read from a file."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import ConfigError


class BodyFormat(StrEnum):
    """How bodies are written."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class Contract(NamedTuple):
    """What bodies have to be.

    Args:
        file: Spark's DDL for JSON, an Avro schema, or a Protobuf descriptor set.
        text: what the file says; of a descriptor set nothing.
        message: the Protobuf message's full name.
        digest: of the file, so that a change of it is noticed.
    """

    format: BodyFormat
    file: Path
    text: str
    message: str
    digest: str


def load_contract(body_format: BodyFormat, file: Path, message: str = "") -> Contract:
    """Read a contract.

    Raises:
        ConfigError: the file cannot be read, or no message is named for Protobuf.
    """
    if (body_format is BodyFormat.PROTOBUF) != bool(message):
        raise ConfigError("message", message or "not given", "the message's full name for protobuf, and none otherwise")
    try:
        content = file.read_bytes()
        text = "" if body_format is BodyFormat.PROTOBUF else content.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("contract", str(file), f"a file that can be read ({type(error).__name__})") from None
    return Contract(body_format, file, text, message, sha256(content).hexdigest()[:16])
