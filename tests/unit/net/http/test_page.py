"""Claims about answers of pages."""

from __future__ import annotations

from orbitmq.net.http.page import JSON, TEXT, Answer


def test_an_answer_is_good_and_plain_text_unless_it_says_otherwise() -> None:
    assert Answer(b"up") == (b"up", 200, TEXT)
    assert Answer(b"{}", 503, JSON).content_type == "application/json"
