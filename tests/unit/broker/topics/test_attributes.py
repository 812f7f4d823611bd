from __future__ import annotations

import pytest

from orbitmq.broker.topics.attributes import apply_attribute_changes, parse_attribute_changes
from orbitmq.errors import Rejected


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (None, {}),
        ("", {}),
        ("+a=b,-c", {"+a": "b", "-c": ""}),
        (" +a=b=c , ", {"+a": "b=c"}),
        ("+a", {"+a": ""}),
    ],
)
def test_changes_are_read_with_their_signs(text: str | None, changes: dict[str, str]) -> None:
    assert parse_attribute_changes(text) == changes


@pytest.mark.parametrize("text", ["a=b", "+", "-", "+=b", "+a=b,c"])
def test_a_change_without_sign_or_name_is_refused(text: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_attribute_changes(text)
    assert caught.value.code == 29


def test_changes_set_and_remove_and_leave_the_rest() -> None:
    before = {"kept": "1", "gone": "2", "new": "old"}
    assert apply_attribute_changes(before, {"-gone": "", "+new": "3", "-never": ""}) == {"kept": "1", "new": "3"}
    assert before == {"kept": "1", "gone": "2", "new": "old"}


def test_names_of_one_letter_are_names() -> None:
    assert parse_attribute_changes("+x=1,-y") == {"+x": "1", "-y": ""}
    assert apply_attribute_changes({"y": "2", "z": "3"}, {"+x": "1", "-y": "", "-none": ""}) == {"z": "3", "x": "1"}
