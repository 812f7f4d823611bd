"""Tag codes are Java's String.hashCode."""

import pytest

from orbitmq.wire.messages.tags import tag_code


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),  # the famous hash of Integer.MIN_VALUE
        ("标签", 857175),
        ("\U0001f600", 1772899),  # two UTF-16 units
    ],
)
def test_a_tag_code_is_javas_string_hash(tag, code):
    assert tag_code(tag) == code
