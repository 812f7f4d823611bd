from __future__ import annotations

import pytest

from orbitmq.broker.delivery.tag_filter import parse_tag_codes
from orbitmq.errors import Rejected
from orbitmq.wire.messages.tags import tag_code


@pytest.mark.parametrize("expression", ["", "*"])
def test_every_message_passes_the_empty_filter_and_the_star(expression: str) -> None:
    assert parse_tag_codes(expression) is None


@pytest.mark.parametrize("expression", ["a||b", " a || b ", "||a|| ||b"])
def test_a_filter_is_the_codes_of_its_tags(expression: str) -> None:
    assert parse_tag_codes(expression) == frozenset((tag_code("a"), tag_code("b")))


@pytest.mark.parametrize("expression", [" ", "|| ||", " || "])
def test_blanks_are_tags_that_no_message_has(expression: str) -> None:
    assert parse_tag_codes(expression) == frozenset()


def test_a_star_between_blanks_is_a_tag() -> None:
    assert parse_tag_codes(" * ") == frozenset((tag_code("*"),))


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_a_filter_without_a_tag_answers_23(expression: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_tag_codes(expression)
    assert caught.value.code == 23
