"""Templates of half messages: what is put together is what the slow path makes, and nothing else is."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.broker.fast_path.special_templates import HalfTemplate, KeyedTemplates, half_templates
from orbitmq.broker.transactions.messages import half_message
from orbitmq.errors import OrbitError
from orbitmq.model.message import Host
from orbitmq.store import Draft
from orbitmq.store.dispatch import tag_code_of
from orbitmq.wire.messages.properties import parse_properties

HALF = b"TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01%s\x02TAGS\x01a\x02"


def made(draft: Draft) -> Draft | None:
    """Return what the slow path makes of a half message."""
    try:
        return half_message(draft, parse_properties(draft.properties))
    except OrbitError:
        return None


def sent(properties: bytes, topic: str = "t", queue_id: int = 3) -> Draft:
    return Draft(topic, queue_id, b"body", properties, 7, 5, 1_700_000_000_000, Host("10.0.0.1", 9))


def taught(*drafts: tuple[Draft, bytes]) -> KeyedTemplates[HalfTemplate]:
    """Forms that know each of these; a form is made when it comes for the second time."""
    templates = half_templates(made)
    for draft, key in drafts * 2:
        templates.find(draft, key)
    return templates


def filled(templates: KeyedTemplates[HalfTemplate], draft: Draft, key: bytes) -> Draft | None:
    template = templates.find(draft, key)
    return None if template is None else template.fill(draft, key)


def expected(draft: Draft) -> Any:
    half = made(draft)
    return half and half._replace(tag_code=tag_code_of(half.topic, half.properties, 0))


def test_the_next_message_of_a_form_is_what_the_slow_path_makes_of_it() -> None:
    templates = taught((sent(HALF % b"AA01"), b"AA01"))
    other = sent(HALF % b"BB22")
    assert filled(templates, other, b"BB22") == expected(other)


@each_case(
    (b"X" + b"UNIQ_KEY\x01AA01\x02" + HALF.replace(b"UNIQ_KEY", b"Y") % b"z", b"AA01"),
    (b"TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01AA01", b"AA01"),
    (b"TRAN_MSG\x01true\x02UNIQ_KEY\x01AA01\x02", b"AA01"),
    (HALF % b"AA01" + b"DELAY\x013\x02", b"AA01"),
)
def test_what_more_than_the_key_may_differ_in_has_no_form(properties: bytes, key: bytes) -> None:
    assert taught((sent(properties), key)).find(sent(properties), key) is None


NAMES = st.sampled_from(
    ["TRAN_MSG", "PGROUP", "UNIQ_KEY", "TAGS", "REAL_TOPIC", "TRAN_RENEWED_FROM", "__transactionId__", "A", "DELAY"]
)
VALUES = st.sampled_from(["true", "p", "a", "AA01", "x AA01", "", "0"])


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.sampled_from([b"AA01", b"BB22", b"true", b"a", b"p"]))
def test_whatever_is_filled_in_is_what_the_slow_path_makes(others: list[tuple[str, str]], key: bytes) -> None:
    rest = b"".join(b"%s\x01%s\x02" % (name.encode(), value.encode()) for name, value in others)
    for template in (HALF + rest.replace(b"%", b"%%"), rest.replace(b"%", b"%%") + HALF):
        templates = taught((sent(template % b"AA01"), b"AA01"))
        draft = sent(template % key)
        half = filled(templates, draft, key)
        assert half is None or half == expected(draft)
