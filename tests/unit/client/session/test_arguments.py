from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from cases import each_case
from orbitmq.client.session.arguments import (
    COUNT_MAX,
    choice,
    each,
    flag,
    function,
    instance,
    message,
    named,
    offsets,
    one_or_more,
    optional,
    queue,
    servers,
    text,
    texts,
    whole,
)
from orbitmq.errors import InvalidArgument
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)
ORDER = Message("orders", b"")

CASES: list[Any] = [
    (
        whole(1),
        [1, 5, COUNT_MAX, numpy.int64(5), numpy.uint8(255), numpy.array(5)],
        ["x", "5", None, 1.5, True, 0, -1, COUNT_MAX + 1, numpy.bool_(True), numpy.float64(1), numpy.array([1])],
        "a whole number from 1 to 2147483647",
    ),
    (whole(0, 9), [0, 9], [-1, 10, 10**40], "a whole number from 0 to 9"),
    (named(5), ["abc"], ["", "a b", "abcdef", None, 7, b"a"], ""),
    (instance(str, bytes, allowed="words"), ["", b""], [None, 7], "words"),
    (choice(ConsumeFrom), [*ConsumeFrom, "CONSUME_FROM_LAST_OFFSET"], [None, "LAST", []], "one of ConsumeFrom.LAST, "),
    (choice(ConsumeFrom, ConsumeFrom.FIRST), [ConsumeFrom.FIRST], [ConsumeFrom.LAST], "one of ConsumeFrom.FIRST"),
    (optional(whole(1)), [None, 1], [0, "x"], "a whole number from 1 to 2147483647, or None"),
    (each(text, "texts"), [(), ["a"], {"a"}], [None, 5, "ab", b"ab", {"a": "b"}], "texts"),
    (each(text, "texts"), [], [["a", ""], [None]], "a text that is not empty"),
    (one_or_more(text, "texts"), [["a"], []], [[""], [5]], "a text that is not empty"),
    (one_or_more(whole(0), "numbers"), [7, [7]], [None, [None], -1], "a whole number"),
    (text, ["a"], ["", None, 5, b"a"], "a text that is not empty"),
    (flag, [True, False], [None, 0, 1, "yes"], "True or False"),
    (function, [print, Message], [None, "print", 5], "a function"),
    (servers, ["h:1", "h:1;i:2", ["h:1"], {"h": 1}], [None, 5, "", [], "h:0", "h:x", ["a b:x"], [None], b"h:1"], ""),
    (queue, [QUEUE, tuple(QUEUE)], [None, "orders", "abc", (), ("orders", 0), list(QUEUE)], "a MessageQueue(topic, "),
    (queue, [], [("orders", "broker-a", bad) for bad in (-1, True, None, "0", 0.0)], "a MessageQueue(topic, "),
    (queue, [], [(1, "broker-a", 0), ("orders", None, 0)], "a MessageQueue(topic, "),
    (message, [ORDER], [None, "x", b"x", SimpleNamespace(topic="t")], "a Message, not "),
    (offsets, [{}, {QUEUE: 0}], [None, [QUEUE], 5], "a dict of MessageQueue to offset"),
    (offsets, [], [{QUEUE: -1}, {QUEUE: None}], "a whole number from 0 to"),
    (offsets, [], [{("orders", 0): 5}], "a MessageQueue(topic, "),
    (texts, [{}, {"a": ""}], [None, "a", [("a", "b")], {"a": 1}, {1: "a"}, {"a": None}], "a dict of text to text"),
]


@each_case(*CASES)
def test_a_rule_lets_good_values_pass_and_names_a_bad_one_with_what_is_expected(case):
    rule, good, bad, allowed = case
    for value in good:
        assert rule("it", value) in (value, list(value) if isinstance(value, tuple | set) else value)
    for value in bad:
        with pytest.raises(InvalidArgument) as caught:
            rule("it", value)
        assert caught.value.field == "it"
        assert caught.value.allowed.startswith(allowed), value


def test_numbers_of_other_kinds_become_ints_wherever_they_are():
    five: Any = numpy.int64(5)
    numbers = [
        whole(1)("it", five),
        optional(whole(1))("it", five),
        *each(whole(1), "numbers")("it", [five]),
        *one_or_more(whole(1), "numbers")("it", [five]),
        queue("it", QUEUE._replace(queue_id=five)).queue_id,
        queue("it", ("orders", "broker-a", five)).queue_id,
        *(
            number
            for one, offset in offsets("it", {QUEUE._replace(queue_id=five): five}).items()
            for number in (one.queue_id, offset)
        ),
    ]
    assert numbers == [5] * len(numbers)
    assert {type(number) for number in numbers} == {int}


def test_an_iterator_is_left_to_its_reader():
    topics = iter(["a", ""])
    each(text, "texts")("it", topics)
    servers("it", addresses := iter(["h:1"]))
    assert [list(topics), list(addresses)] == [["a", ""], ["h:1"]]


def test_what_may_be_a_secret_is_told_by_its_type():
    with pytest.raises(InvalidArgument) as caught:
        instance(int, allowed="Credentials")("credentials", ("key", "secret"))
    assert str(caught.value) == "credentials: 'tuple' is not allowed, expected Credentials"
