"""A wait ends with what it waited for, or names what it saw last."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from waiting import until, wait_for

LAST = r"after [\d.]+ s; for the last [\d.]+ s it was"


async def test_a_condition_is_polled_until_it_holds_and_returned() -> None:
    values = iter([0, [], "there"])
    assert await until(lambda: next(values)) == "there"


async def test_a_wait_that_a_time_limit_ends_names_the_last_value() -> None:
    with pytest.raises(TimeoutError) as ended:
        async with asyncio.timeout(0):
            await until(dict)
    assert ended.value.__context__ is not None
    (note,) = ended.value.__context__.__notes__
    assert re.fullmatch(rf"waited in vain: {LAST} \{{\}}", note), note


def test_a_thread_waits_for_a_condition_too_and_names_the_last_value() -> None:
    values = iter([0, [], "there"])
    assert wait_for(lambda: next(values), "a value", pause_s=0) == "there"
    with pytest.raises(AssertionError, match=rf"three slaves: not {LAST} \[\]"):
        wait_for(list, "three slaves", 0, pause_s=0)


def test_a_file_that_another_process_has_begun_to_write_counts_as_not_there(tmp_path: Path) -> None:
    path, contents = tmp_path / "topics.json", iter(["", '{"top', '{"topics": 1}'])

    def read() -> object:
        path.write_text(next(contents))
        return json.loads(path.read_text())

    assert wait_for(read, "the topics", errors=ValueError, pause_s=0) == {"topics": 1}
    path.write_text("")
    with pytest.raises(AssertionError, match=rf"the topics: not {LAST} JSONDecodeError"):
        wait_for(lambda: json.loads(path.read_text()), "the topics", 0, errors=ValueError)
