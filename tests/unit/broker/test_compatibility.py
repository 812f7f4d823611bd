"""docs/compatibility.md and the broker's handlers must say the same."""

from __future__ import annotations

import re
from pathlib import Path

import orbitmq.broker.handlers as handlers
from orbitmq.codes import RequestCode

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (yes|sent|not yet|no) \|", re.MULTILINE)


def rows() -> dict[int, tuple[str, str]]:
    section = PAGE.read_text().partition("\n## Broker\n")[2].partition("\n## ")[0]
    return {int(code): (name, state) for code, name, state in ROW.findall(section)}


def test_every_request_that_the_broker_answers_stands_on_the_page_and_no_other_does() -> None:
    answered = {code for code, (_, state) in rows().items() if state == "yes"}
    assert answered == set(handlers.HANDLERS.codes)


def test_every_name_on_the_page_is_the_codes_own() -> None:
    known = RequestCode._value2member_map_
    wrong = {code: name for code, (name, _) in rows().items() if code in known and RequestCode(code).name != name}
    assert wrong == {}
