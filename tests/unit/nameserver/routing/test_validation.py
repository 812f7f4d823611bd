"""Claims about names that may be registered."""

from __future__ import annotations

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.nameserver.routing.validation import check_registered_name, illegal_names

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


@pytest.mark.parametrize("name", LEGAL)
def test_a_name_that_brokers_use_is_taken(name: str):
    assert check_registered_name("topic", name) == name


@pytest.mark.parametrize("name", ILLEGAL)
def test_a_name_that_means_something_elsewhere_is_refused(name: str):
    with pytest.raises(InvalidArgument, match="topic"):
        check_registered_name("topic", name)


def test_many_names_are_checked_at_once():
    assert illegal_names([]) == frozenset()
    assert illegal_names(LEGAL) == frozenset()
    assert illegal_names([*LEGAL, *ILLEGAL]) == frozenset(ILLEGAL)


@pytest.mark.parametrize("name", ILLEGAL)
def test_one_illegal_name_among_legal_ones_is_found(name: str):
    assert illegal_names(["orders", name, "bills"]) == frozenset([name])
    assert illegal_names([name]) == frozenset([name])
