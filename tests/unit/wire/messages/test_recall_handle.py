import base64

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.wire.messages.recall_handle import RecallHandle, format_recall_handle, parse_recall_handle

HANDLE = RecallHandle("orders", "broker-a", "1700000000001", "7F0000010001")


def encoded(text):
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_a_handle_is_five_words_in_base64():
    assert format_recall_handle(HANDLE) == encoded("v1 orders broker-a 1700000000001 7F0000010001")
    assert parse_recall_handle(format_recall_handle(HANDLE)) == HANDLE
    assert parse_recall_handle(format_recall_handle(HANDLE).rstrip("=")) == HANDLE


def test_more_words_are_ignored_as_in_java():
    assert parse_recall_handle(encoded("v1 orders broker-a 1700000000001 7F0000010001 more")) == HANDLE


@pytest.mark.parametrize(
    "text",
    ["", "=", "x", "%%%%", "ü", "a b", encoded("v2 a b 1 c"), encoded("v1 a b 1"), "A" * 1025, "_w==", "a+/b"],
)
def test_what_is_no_handle_is_refused(text):
    with pytest.raises(InvalidArgument, match="recall_handle"):
        parse_recall_handle(text)
