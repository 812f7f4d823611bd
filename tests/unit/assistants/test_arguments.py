"""Arguments: what is wrong is said with name, value and limit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from cases import each_case
from orbitmq.assistants.arguments import TIME_MS_MAX, explain, to_ms
from orbitmq.assistants.tools import TOOLS
from orbitmq.errors import InvalidArgument


def refusal(tool: str, **arguments: Any) -> str:
    model = TOOLS[tool].arguments
    with pytest.raises(ValidationError) as caught:
        model.model_validate(arguments)
    return explain(caught.value, list(model.model_fields))


def test_a_number_out_of_its_range_is_named_with_value_and_limit() -> None:
    assert refusal("topics", count=500) == "count: 500 is not allowed, expected less than or equal to 200"


def test_every_argument_that_is_wrong_has_a_line() -> None:
    lines = refusal("topics", count="many", start=-1).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["start", "count"]


def test_a_missing_argument_is_named() -> None:
    assert refusal("topic") == "topic: is missing"


def test_an_argument_that_there_is_not_comes_with_those_that_there_are() -> None:
    assert refusal("route", topic="orders", dryrun=True) == ("dryrun: there is no such argument, expected one of topic")


def test_a_long_value_is_shortened() -> None:
    assert len(refusal("topic", topic="x" * 10_000)) < 300


@each_case("false", 0, "no")
def test_a_dry_run_ends_only_with_false_itself(value: object) -> None:
    assert "dry_run" in refusal("delete_topic", topic="orders", dry_run=value)


@each_case("yesterday", "2026-01-31T12:00:00", "2026-13-01T00:00:00Z")
def test_a_time_has_a_zone(value: str) -> None:
    assert refusal("messages_by_time", topic="orders", begin=value).startswith(f"begin: {value!r} is not allowed")


@each_case("1795890401", True, 1_795_890_401.5, None, [])
def test_what_is_no_time_is_refused_with_what_is_one(value: object) -> None:
    assert refusal("messages_by_time", topic="orders", begin=value) == (
        f"begin: {value!r} is not allowed, expected ISO 8601 with a time zone, as 2026-01-31T12:00:00Z, "
        "or a number of milliseconds since 1970"
    )


@each_case(1_767_225_600_000, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00")
def test_times_are_texts_or_milliseconds(value: object) -> None:
    found: Any = TOOLS["messages_by_time"].arguments.model_validate({"topic": "orders", "begin": value})
    assert to_ms(found.begin) == 1_767_225_600_000


@each_case(-1, TIME_MS_MAX + 1, datetime(1969, 12, 31, tzinfo=UTC))
def test_a_time_that_no_broker_has_is_refused(at: int | datetime) -> None:
    with pytest.raises(InvalidArgument, match="from 1970 on"):
        to_ms(at)
