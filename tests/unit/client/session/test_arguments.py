import pytest

from orbitmq.client.session.arguments import check_choice, check_functions, check_message, check_numbers
from orbitmq.errors import InvalidArgument
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.message import Message


@pytest.mark.parametrize("value", ["x", "5", None, 1.5, True, 0, -1])
def test_what_is_no_number_or_too_small_is_named_with_what_is_expected(value):
    with pytest.raises(InvalidArgument, match=r"^delay_ms: .* expected a whole number, 1 or more$"):
        check_numbers(1, count=3, delay_ms=value)


def test_numbers_in_their_range_pass():
    check_numbers(0, count=0, delay_ms=2**40)


@pytest.mark.parametrize("message", ["x", None, b"x", 7])
def test_what_is_no_message_is_told_how_to_make_one(message):
    check_message(Message("t", b""))
    with pytest.raises(InvalidArgument, match=r"^message: .* expected a Message, not .*Message\(topic, body\)$"):
        check_message(message)


@pytest.mark.parametrize("value", ["FIRST", None, 1, []])
def test_what_is_no_choice_is_told_which_there_are(value):
    assert check_choice("consume_from", ConsumeFrom.FIRST.value, ConsumeFrom) is ConsumeFrom.FIRST
    with pytest.raises(
        InvalidArgument, match=r"^consume_from: .* expected one of ConsumeFrom\.LAST, ConsumeFrom\.FIRST, "
    ):
        check_choice("consume_from", value, ConsumeFrom)


def test_what_is_no_function_is_named():
    check_functions(handler=None, key=len)
    with pytest.raises(InvalidArgument, match=r"^handler: 'print' is not allowed, expected a function, not str$"):
        check_functions(key=len, handler="print")
