"""Every request code has a typed header and a handler, or docs/compatibility.md says that it is a gap."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import orbitmq.broker.handlers
import orbitmq.client.group_member
import orbitmq.client.producer
import orbitmq.controller.handlers
import orbitmq.nameserver.handlers
import orbitmq.wire.headers
from golden import golden_frames
from orbitmq.codes import RequestCode
from orbitmq.net.dispatch.handlers import Handlers
from orbitmq.wire.header import bound_codes

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (yes|sent|not yet|no) \|", re.MULTILINE)
_CLIENTS: Handlers[Any] = Handlers()
for _handlers in (orbitmq.client.group_member.handlers, orbitmq.client.producer.handlers):
    _CLIENTS.include(_handlers)
HANDLERS: Mapping[str, Handlers[Any]] = {
    "NameServer": orbitmq.nameserver.handlers.handlers,
    "Broker": orbitmq.broker.handlers.HANDLERS,
    "Controller": orbitmq.controller.handlers.handlers,
    "Clients": _CLIENTS,
}


def rows(section: str) -> dict[int, tuple[str, str]]:
    """The page's table of a section: code to name and state."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return {int(code): (name, state) for code, name, state in ROW.findall(text)}


@pytest.mark.parametrize("section", HANDLERS)
def test_the_page_lists_as_answered_what_has_a_handler_and_nothing_else(section):
    answered = {code for code, (_, state) in rows(section).items() if state == "yes"}
    assert answered == set(HANDLERS[section].codes)


@pytest.mark.parametrize("section", HANDLERS)
def test_the_pages_names_are_the_codes_names(section):
    assert {code: name for code, (name, _) in rows(section).items()} == {
        code: RequestCode(code).name for code in rows(section)
    }


def test_every_request_code_stands_on_the_page():
    assert set().union(*(rows(section) for section in HANDLERS)) == set(RequestCode)


def test_every_handled_code_has_a_typed_header():
    handled = set().union(*(handlers.codes for handlers in HANDLERS.values()))
    assert orbitmq.wire.headers is not None
    assert handled <= set(bound_codes())


def test_every_code_of_javas_has_a_golden_file():
    captured = {int(frame.stem.split("-", 1)[0]) for frame in golden_frames() if "-request" in frame.stem}
    assert {code for code in RequestCode if not code.name.startswith("ORBITMQ_")} <= captured
