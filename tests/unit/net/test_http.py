"""Claims about answers of pages."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.net.http import JSON, TEXT, HttpResponse, Page


def test_an_answer_is_good_and_plain_text_unless_it_says_otherwise() -> None:
    assert HttpResponse(b"up") == (b"up", 200, TEXT)
    assert HttpResponse(b"{}", 503, JSON).content_type == "application/json"


def test_a_page_is_given_the_parameters_that_it_has() -> None:
    page = Page(lambda query: HttpResponse(repr(sorted(query)).encode()), ("count", "since"))
    assert page({"since": "1", "count": "2"}) == HttpResponse(b"['count', 'since']")
    assert page({}) == HttpResponse(b"[]")


@each_case(((), "no parameter: this page has none"), (("count", "since"), "one of count, since"))
def test_an_unknown_parameter_is_refused_by_its_name(parameters: tuple[str, ...], expected: str) -> None:
    page = Page(lambda _query: HttpResponse(b"not what was meant"), parameters)
    with pytest.raises(InvalidArgument) as caught:
        page({"cnt": "2"})
    assert str(caught.value) == f"query: 'cnt' is not allowed, expected {expected}"
