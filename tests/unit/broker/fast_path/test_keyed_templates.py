"""Templates by what stands around a unique key: made at the second time, for keys that stand alone, and not for ever."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.fast_path import special_templates
from orbitmq.broker.fast_path.special_templates import KeyedTemplates
from orbitmq.store import Draft

PROPERTIES = b"A\x01b\x02UNIQ_KEY\x01%s\x02"


def sent(properties: bytes, topic: str = "t", queue_id: int = 3) -> Draft:
    return Draft(topic, queue_id, b"body", properties)


class Maker:
    """Makes templates that are the keys they were made for, and counts them."""

    def __init__(self, *, has_some: bool = True) -> None:
        self.asked: list[bytes] = []
        self._has_some = has_some

    def __call__(self, _draft: Draft, key: bytes) -> bytes | None:
        self.asked.append(key)
        return key if self._has_some else None


def test_a_template_is_made_at_the_second_time_and_holds_for_its_topic_and_queue() -> None:
    templates = KeyedTemplates(Maker())
    assert templates.find(sent(PROPERTIES % b"AA01"), b"AA01") is None
    assert templates.find(sent(PROPERTIES % b"BB22"), b"BB22") == b"BB22"
    assert templates.find(sent(PROPERTIES % b"CC33"), b"CC33") == b"BB22"
    assert templates.find(sent(PROPERTIES % b"CC33", topic="u"), b"CC33") is None
    assert templates.find(sent(PROPERTIES % b"CC33", queue_id=4), b"CC33") is None


def test_what_has_no_template_is_asked_for_once() -> None:
    maker = Maker(has_some=False)
    templates = KeyedTemplates(maker)
    assert [templates.find(sent(PROPERTIES % b"AA01"), b"AA01") for _ in range(4)] == [None] * 4
    assert maker.asked == [b"AA01"]


@each_case(
    (PROPERTIES % b"AA01" + b"A\x01AA01\x02", b"AA01"),
    (b"A\x01AA01\x02" + PROPERTIES % b"AA01", b"AA01"),
    (PROPERTIES % b"K", b"K"),
    (PROPERTIES % b"AA01" + b"UNIQ_KEY\x01BB\x02", b"AA01"),
    (b"XUNIQ_KEY\x01AA01\x02", b"AA01"),
    (b"UNIQ_KEY\x01AA01", b"AA01"),
    (PROPERTIES % (b"A" * 65), b"A" * 65),
    (PROPERTIES % b"AA01" + b"B\x01" + b"x" * 2_000 + b"\x02", b"AA01"),
)
def test_what_more_than_the_key_may_differ_in_has_no_template(properties: bytes, key: bytes) -> None:
    templates = KeyedTemplates(Maker())
    assert [templates.find(sent(properties), key) for _ in range(3)] == [None] * 3


def test_templates_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special_templates, "TEXTS_MAX", 3)
    templates = KeyedTemplates(Maker())
    for queue_id in range(10):
        found = [templates.find(sent(PROPERTIES % b"AA01", queue_id=queue_id), b"AA01") for _ in range(2)]
        assert found == [None, b"AA01"]
        assert len(templates._templates) <= 3
        assert len(templates._seen) <= 3
    assert templates.find(sent(PROPERTIES % b"AA01", queue_id=0), b"AA01") is None
