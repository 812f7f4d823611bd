"""The arguments of tools: their types, from which the schemas are made, and one line for each that is wrong. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, StrictBool, ValidationError

from orbitmq.assistants.answers import ROWS_MAX
from orbitmq.assistants.message_rows import BODY_SIZE_MAX
from orbitmq.errors import InvalidArgument
from orbitmq.model.topic import GROUP_LENGTH_MAX, NAME_LENGTH_MAX

QUEUES_MAX = 1_024
OFFSET_MAX = (1 << 63) - 1
TIME_MS_MAX = 253_402_300_799_999
"""The end of the year 9999."""
_ISO_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]")
RESENT_MAX = 1_000
SENT_BODY_LENGTH_MAX = 256 * 1024

Topic = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX, description="Name of the topic.")]
Group = Annotated[str, Field(min_length=1, max_length=GROUP_LENGTH_MAX, description="Name of the consumer group.")]
OneTopic = Annotated[
    str | None, Field(min_length=1, max_length=NAME_LENGTH_MAX, description="Only this topic; without it, all of them.")
]
Cluster = Annotated[
    str | None,
    Field(max_length=NAME_LENGTH_MAX, description="Only this cluster. Changes need it where there are several."),
]
Broker = Annotated[str | None, Field(max_length=NAME_LENGTH_MAX, description="Only the broker of this name.")]
QueueId = Annotated[int | None, Field(ge=0, le=2**31 - 1, description="Only queues of this number.")]
Search = Annotated[str, Field(max_length=NAME_LENGTH_MAX, description="A part of the name, in any case; empty: all.")]
Kind = Annotated[
    Literal["user", "retry", "dead letters", "system", "all"],
    Field(description="What topics are for: users' own, the retries or dead letters of groups, or RocketMQ itself."),
]
Severities = Annotated[
    Literal["error", "warning", "info"], Field(description="Issues of this severity, and worse ones.")
]
Start = Annotated[int, Field(ge=0, le=2**31, description="Rows to skip: `next_start` of the answer before.")]
Count = Annotated[int, Field(ge=1, le=ROWS_MAX, description="Rows at most.")]
MessageCount = Annotated[int, Field(ge=1, le=64, description="Messages at most.")]
MessageId = Annotated[
    str, Field(min_length=1, max_length=255, description="The id that the client gave the message, or its broker's.")
]
Key = Annotated[str, Field(min_length=1, max_length=1_024, description="One of the messages' keys.")]
_TIMES = "ISO 8601 with a time zone, as 2026-01-31T12:00:00Z, or a number of milliseconds since 1970"


def _check_time(value: Any) -> Any:
    """Refuse what pydantic would take for a time as well: true, and seconds, in a text or with a fraction."""
    is_time = (isinstance(value, str) and _ISO_TIME.match(value)) or (type(value) is int)
    if not is_time and not isinstance(value, datetime):
        raise ValueError(_TIMES)
    return value


Time = Annotated[int | AwareDatetime, BeforeValidator(_check_time), Field(description=f"{_TIMES}.")]
Skip = Annotated[
    int, Field(ge=0, le=ROWS_MAX, description="Messages to skip at `begin`: `next_start` of the answer before.")
]
WithBody = Annotated[StrictBool, Field(description="Also the bodies, which are untrusted content of messages.")]
BodySizeMax = Annotated[int, Field(ge=1, le=BODY_SIZE_MAX, description="Bytes of each body at most.")]
Queues = Annotated[int, Field(ge=1, le=QUEUES_MAX, description="Queues on each broker.")]
Perm = Annotated[Literal[2, 4, 6], Field(description="4: to read, 2: to write, 6: both.")]
ResetKind = Annotated[
    Literal["earliest", "latest", "time", "offset"],
    Field(description="Where to go on: the first message, behind the newest one, at the time `at`, or at `offset`."),
]
Offset = Annotated[int | None, Field(ge=0, le=OFFSET_MAX, description="A queue offset, for `to: offset`.")]
Place = Annotated[
    str | None, Field(max_length=300, description="Begin there: broker:queue:offset, as `next_start` says.")
]
DryRun = Annotated[StrictBool, Field(description="Only say what would be done. Set it to false to do it.")]


def to_ms(at: int | datetime) -> int:
    """Return a time in ms since 1970.

    Raises:
        InvalidArgument: it is before 1970 or too far ahead.
    """
    at_ms = at if isinstance(at, int) else round(at.timestamp() * 1000)
    if not 0 <= at_ms <= TIME_MS_MAX:
        raise InvalidArgument("time", str(at), f"a time from 1970 on, at most {TIME_MS_MAX} ms")
    return at_ms


def explain(error: ValidationError, names: list[str]) -> str:
    """Return a line for each argument that is wrong: its name, the value, and what is allowed.

    Args:
        names: those of all arguments of the tool.
    """
    return "\n".join(dict.fromkeys(_explain_one(dict(part), names) for part in error.errors(include_url=False)))


def _explain_one(part: dict[str, Any], names: list[str]) -> str:
    # What follows the name are the alternatives of a type, in pydantic's words.
    path = [str(step) for step in part["loc"]] or ["arguments"]
    if part["type"] == "extra_forbidden":
        return f"{path[0][:100]}: there is no such argument, expected one of {', '.join(names)}"
    if part["type"] == "missing":
        return f"{path[0]}: is missing"
    allowed = part["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return str(InvalidArgument(path[0], part["input"], allowed))
