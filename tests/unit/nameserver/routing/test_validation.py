"""Claims about names that may be registered."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.nameserver.routing.validation import check_registered_name, illegal_topics

LEGAL = ["orders", "host-1.example.org", "%RETRY%group+topic", "127.0.0.1:10911", "a|b", "x" * 255]
ILLEGAL = [
    "",
    "..",
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "a b",
    "a\nb",
    "a;b",
    "$(x)",
    "`x`",
    "<b>",
    "é",
    "x" * 256,
    "\x00",
]


TOPICS = [
    *LEGAL,
    "..",
    "a/b",
    "a b",
    "a\\b",
    'a"b',
    "<b>",
    "订单",
    "\u00e9",
    "e\u0301",
    "\U0001f680",
    "\u200b",
    "é" * 255,
]
NO_TOPICS = ["", "a\nb", "a\r", "\x00", "\x7f", "\x85", "a\u2028b", "\ud800", "x" * 256]


@each_case(*LEGAL)
def test_a_name_that_brokers_use_is_taken(name: str):
    assert check_registered_name("brokerName", name) == name


@each_case(*ILLEGAL)
def test_a_name_that_means_something_elsewhere_is_refused(name: str):
    with pytest.raises(InvalidArgument, match="brokerName"):
        check_registered_name("brokerName", name)


def test_many_topics_are_checked_in_one_request():
    assert illegal_topics([]) == frozenset()
    assert illegal_topics(TOPICS) == frozenset()
    assert illegal_topics([*TOPICS, *NO_TOPICS]) == frozenset(NO_TOPICS)


@each_case(*NO_TOPICS)
def test_one_illegal_topic_among_legal_ones_is_found(name: str):
    assert illegal_topics(["orders", name, "bills"]) == frozenset([name])
    assert illegal_topics([name]) == frozenset([name])
