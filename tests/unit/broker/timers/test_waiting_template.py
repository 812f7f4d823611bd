"""Templates of waiting messages: what they say is what parsing says, and nothing else has one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.broker.timers import waiting_template
from orbitmq.broker.timers.waiting_template import WaitingTemplates
from orbitmq.model.message import TimerProperty
from orbitmq.store.dispatch import tag_code_of
from orbitmq.wire.messages.properties import format_properties, parse_properties

WAITING = b"UNIQ_KEY\x01%s\x02TAGS\x01a\x02TIMER_OUT_MS\x015000\x02REAL_TOPIC\x01t\x02REAL_QID\x013\x02"
BEHIND = b"TIMER_OUT_MS\x015000\x02REAL_TOPIC\x01t\x02REAL_QID\x013\x02"


def expected(properties: bytes, enqueue_ms: str, dequeue_ms: int) -> bytes:
    parsed = parse_properties(properties)
    traces = {TimerProperty.ENQUEUE_MS: enqueue_ms, TimerProperty.DEQUEUE_MS: str(dequeue_ms)}
    return format_properties({**parsed, **traces})


def taught(properties: bytes) -> WaitingTemplates:
    """Templates that know a text; a template is made when it comes for the second time."""
    templates = WaitingTemplates()
    templates.find(properties)
    templates.find(properties)
    return templates


def check(properties: bytes, found: object) -> None:
    """Compare what a template says with what parsing says."""
    assert isinstance(found, tuple)
    template, key = found
    parsed = parse_properties(properties)
    assert (key.decode(), template.topic) == (parsed["UNIQ_KEY"], parsed["REAL_TOPIC"])
    assert (template.due_ms, template.queue_id) == (int(parsed["TIMER_OUT_MS"]), int(parsed["REAL_QID"]))
    assert template.tag_code == tag_code_of(template.topic, properties, 0)
    assert template.fill(key, "17", 18) == expected(properties, "17", 18)


def test_the_next_message_of_a_text_is_what_parsing_says_of_it() -> None:
    templates = taught(WAITING % b"AA01")
    check(WAITING % b"BB22", templates.find(WAITING % b"BB22"))


def test_a_template_is_made_when_its_text_comes_again() -> None:
    templates = WaitingTemplates()
    assert templates.find(WAITING % b"AA01") is None
    assert templates.find(WAITING % b"BB22") is not None
    assert templates.find((WAITING % b"BB22").replace(b"5000", b"6000")) is None


@each_case(
    WAITING.replace(b"UNIQ_KEY", b"KEYS") % b"AA01",
    b"X" + WAITING % b"AA01",
    WAITING % b"",
    WAITING % b"A-1",
    WAITING % b"A\x01B",
    WAITING % b"AA01" + b"UNIQ_KEY\x01BB\x02",
    BEHIND + b"UNIQ_KEY\x01AA01",
    b"A\x01\xff\x02" + WAITING % b"AA01",
    (WAITING % b"AA01").replace(b"5000", b"5x"),
    (WAITING % b"AA01").replace(b"TIMER_OUT_MS\x015000\x02", b""),
    (WAITING % b"AA01").replace(b"REAL_TOPIC\x01t\x02", b""),
    (WAITING % b"AA01").replace(b"REAL_TOPIC\x01t\x02", b"REAL_TOPIC\x01SCHEDULE_TOPIC_XXXX\x02"),
    (WAITING % b"AA01").replace(b"REAL_QID\x013\x02", b"REAL_QID\x01x\x02"),
    WAITING % b"AA01" + b"__CRC32#\x011\x02",
    WAITING % b"AA01" + b"TIMER_DEL_UNIQKEY\x01t+K\x02",
    WAITING % b"AA01" + b"TIMER_ENQUEUE_MS\x011\x02",
    WAITING % b"AA01" + b"TIMER_DEQUEUE_MS\x011\x02",
    WAITING % b"AA01" + b"TIMER_ROLL_TIMES\x011\x02",
    WAITING % b"AA01" + b"B\x01" + b"x" * 2_000 + b"\x02",
)
def test_what_has_no_template_is_left_to_be_parsed(properties: bytes) -> None:
    assert taught(properties).find(properties) is None


@each_case(
    BEHIND + b"UNIQ_KEY\x01AA01\x02",
    (WAITING % b"AA01")[:-1],
    b"\x02A\x01\x02BC\x02" + WAITING % b"AA01",
    b"A\x01UNIQ_KEX\x02" + WAITING % b"AA01",
    b"AA01\x01AA01\x02" + WAITING % b"AA01",
    "Ä\x01ö\x02".encode() + WAITING % b"AA01",
    WAITING % b"AA01" + b"A\x01first\x02A\x01second\x02TAGS\x01b\x02TAGS\x01\x02",
)
def test_unusual_text_around_the_key_is_formatted_as_parsing_and_formatting_do(properties: bytes) -> None:
    templates = taught(properties)
    check(properties, templates.find(properties))


def test_a_key_longer_than_what_is_looked_at_has_no_template() -> None:
    templates = taught(WAITING % b"AA01")
    assert templates.find(WAITING % (b"A" * 40_000)) is None


def test_texts_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_template, "TEXTS_MAX", 3)
    templates = WaitingTemplates()
    for number in range(10):
        text = WAITING % b"AA01" + b"N\x01%d\x02" % number
        assert [templates.find(text) is None for _ in range(3)] == [True, False, False]
        assert len(templates._templates) <= 3
        assert len(templates._seen) <= 3


PIECES = st.sampled_from(
    [b"UNIQ_KEY", b"\x01", b"\x02", b"AA01", b"KEY", b"TAGS\x01b\x02", b"UNIQ_KEY\x01Z9\x02", b"x", "ä".encode()]
)


@given(st.lists(st.tuples(st.lists(PIECES, max_size=4), st.lists(PIECES, max_size=4)), min_size=1, max_size=4))
def test_whatever_stands_around_a_key_a_template_says_what_parsing_says(around: list[tuple[list[bytes], ...]]) -> None:
    templates = WaitingTemplates()
    for key in (b"AA01", b"BB22", b"CC33", b"Z9"):
        for before, behind in around:
            properties = b"".join(before) + WAITING % key + b"".join(behind)
            if (found := templates.find(properties)) is not None:
                check(properties, found)
