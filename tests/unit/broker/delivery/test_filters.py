"""Message filters: by tags, by their codes, and by SQL92 expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.delivery import filters
from orbitmq.broker.delivery.filters import Filters, parse_tag_codes
from orbitmq.errors import Rejected
from orbitmq.filter import PropertyFilter, compile_sql92
from orbitmq.model.group import SQL92, Subscription
from orbitmq.store import PropertyTest
from orbitmq.wire.messages.properties import tag_code

ON: dict[str, Any] = {"takes_sql92": True, "filters_retries": False}
CHEAP, DEAR = b"price\x015\x02", b"price\x0150\x02"


def sql(expression: str, topic: str = "t", kind: str = SQL92) -> Subscription:
    return Subscription(topic=topic, expression=expression, expression_type=kind)


def refusal(act: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(Rejected) as caught:
        act()
    return caught.value.code, caught.value.remark


def watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of what is compiled from now on."""
    compiled: list[str] = []

    def counted(text: str) -> PropertyFilter:
        compiled.append(text)
        return compile_sql92(text)

    monkeypatch.setattr(filters, "compile_sql92", counted)
    return compiled


@pytest.fixture
def on() -> Filters:
    return Filters(**ON)


@each_case(None, "", "TAG")
def test_tags_are_filtered_by_their_codes(kind: str | None) -> None:
    off = Filters(takes_sql92=False, filters_retries=False)
    assert off.of_request("a", kind, 0) == frozenset((tag_code("a"),))
    assert off.of_request(None, kind, 0) is None
    assert off.of_request("*", kind, 0) is None
    assert off.of_subscription(sql("a", kind=kind or ""), 0) == frozenset((tag_code("a"),))
    off.check(sql("a", kind=kind or ""), 0)


def test_an_expression_becomes_a_test_of_properties(on: Filters) -> None:
    for test in (on.of_request("price > 10", SQL92, 0), on.of_subscription(sql("price > 10"), 0)):
        assert isinstance(test, PropertyTest)
        assert (test.matches(CHEAP), test.matches(DEAR), test.cost, test.tag_codes) == (False, True, 1, None)
    on.check(sql("price > 10"), 0)


def test_a_broker_that_takes_tags_alone_says_so() -> None:
    off = Filters(takes_sql92=False, filters_retries=False)
    remark = "The broker does not support consumer to filter message by SQL92"
    assert refusal(lambda: off.of_request("price > 10", SQL92, 0)) == (1, remark)
    assert refusal(lambda: off.of_request("price >", SQL92, 0)) == (1, remark)
    assert refusal(lambda: off.of_subscription(sql("price > 10"), 0)) == (1, remark)
    assert refusal(lambda: off.check(sql("price >"), 0)) == (1, remark)


def test_a_wrong_expression_is_answered_with_the_place(on: Filters) -> None:
    at_end = "something is missing at the end (line 1, column 8)"
    assert refusal(lambda: on.of_request("price >", SQL92, 0)) == (
        23,
        f"parse the consumer's subscription failed: {at_end}",
    )
    assert refusal(lambda: on.check(sql("price >"), 0)) == (23, at_end)
    code, remark = refusal(lambda: on.of_subscription(sql("price >"), 0))
    assert (code, remark.endswith(at_end)) == (27, True)
    assert refusal(lambda: on.of_request("", SQL92, 0))[0] == 23
    assert refusal(lambda: on.of_request(None, SQL92, 0))[0] == 23


def test_a_pull_for_a_wrong_expression_hears_of_it_before_it_hears_that_there_are_no_expressions() -> None:
    off = Filters(takes_sql92=False, filters_retries=False)
    assert refusal(lambda: off.of_subscription(sql("price >"), 0))[0] == 27
    assert refusal(lambda: off.of_request("", SQL92, 0))[0] == 23


def test_other_types_of_expressions_are_unknown(on: Filters) -> None:
    assert refusal(lambda: on.of_request("a", "XPATH", 0))[0] == 23
    assert refusal(lambda: on.of_subscription(sql("a", kind="XPATH"), 0))[0] == 27
    code, remark = refusal(lambda: on.check(sql("a", kind="XPATH"), 0))
    assert (code, remark) == (23, "XPATH is not a type of expression, expected TAG or SQL92")


def test_an_expression_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = watch(monkeypatch)
    on = Filters(**ON)
    first = on.of_request("price > 10", SQL92, 0)
    assert on.of_request("price > 10", SQL92, 0) == first
    assert on.of_subscription(sql("price > 10"), 0) == first
    for _ in range(2):
        assert refusal(lambda: on.of_request("price >", SQL92, 0))[0] == 23
    assert compiled == ["price > 10", "price >"]


def test_compiled_expressions_are_kept_up_to_a_length_the_last_used_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = watch(monkeypatch)
    monkeypatch.setattr(filters, "KEPT_LENGTH_MAX", 14)
    on = Filters(**ON)
    for expression in ("aa = 1", "bb = 1", "aa = 1", "cc = 1", "aa = 1", "bb = 1"):
        on.of_request(expression, SQL92, 0)
    assert compiled == ["aa = 1", "bb = 1", "cc = 1", "bb = 1"]


def test_a_long_expression_is_compiled_aside_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    aside: list[tuple[str, Any]] = []
    on = Filters(**ON, compile_aside=lambda expression, done: aside.append((expression, done)))
    first, second = (f"price > {number}" + " AND price > 1" * 600 for number in (10, 11))
    assert refusal(lambda: on.of_request(first, SQL92, 0)) == (
        215,
        "an expression of 8410 characters is compiled: try again",
    )
    for late in (first, second):
        assert refusal(lambda late=late: on.of_request(late, SQL92, 99_000))[0] == 215  # type: ignore[misc]
    assert isinstance(on.of_request("price > 10", SQL92, 99_000), PropertyTest)
    ((expression, done),) = aside
    done(compile_sql92(expression))
    found = on.of_request(first, SQL92, 99_000)
    assert isinstance(found, PropertyTest)
    assert [found.matches(properties) for properties in (CHEAP, DEAR)] == [False, True]
    assert refusal(lambda: on.of_request(second, SQL92, 199_000))[0] == 215
    assert len(aside) == 2


def test_an_expression_that_is_too_long_drives_out_no_other(monkeypatch: pytest.MonkeyPatch, on: Filters) -> None:
    first = on.of_request("price > 10", SQL92, 0)
    assert refusal(lambda: on.of_request("a" * 2_000_000, SQL92, 0))[0] == 23
    assert on._kept.keys() == {"price > 10"}
    assert on.of_request("price > 10", SQL92, 0) == first


RETRIES: dict[str, Any] = {"takes_sql92": True, "filters_retries": True}
GROUP = {
    "t": sql("price > 10"),
    "u": Subscription(topic="u"),
    "v": sql("price >", "v"),
    "%RETRY%g": Subscription(topic="%RETRY%g"),
}


@each_case(
    (b"RETRY_TOPIC\x01t\x02" + CHEAP, False),
    (b"RETRY_TOPIC\x01t\x02" + DEAR, True),
    (b"RETRY_TOPIC\x01u\x02" + CHEAP, True),
    (b"RETRY_TOPIC\x01v\x02" + CHEAP, True),
    (b"RETRY_TOPIC\x01w\x02" + CHEAP, True),
    (CHEAP, True),
)
def test_retries_pass_the_filter_of_the_topic_they_were_sent_to(properties: bytes, passes: bool) -> None:
    codes = frozenset((7,))
    test = Filters(**RETRIES).of_retries(codes, "%RETRY%g", GROUP, 0)
    assert isinstance(test, PropertyTest)
    assert (test.matches(properties), test.cost, test.tag_codes) == (passes, 2, codes)


def test_other_pulls_and_other_groups_are_left_alone() -> None:
    codes = frozenset((7,))
    assert Filters(**RETRIES).of_retries(codes, "t", GROUP, 0) is codes
    assert Filters(**ON).of_retries(codes, "%RETRY%g", GROUP, 0) is codes
    assert Filters(**RETRIES).of_retries(codes, "%RETRY%g", {"u": GROUP["u"]}, 0) is codes
    own = Filters(**RETRIES).of_request("price > 10", SQL92, 0)
    assert Filters(**RETRIES).of_retries(own, "%RETRY%g", {}, 0) is None


def test_new_expressions_are_compiled_so_fast_and_no_faster(on: Filters) -> None:
    long = [f"price > {number} " + " " * 3_000 for number in range(10, 20)]
    for expression in long[:3]:
        on.of_request(expression, SQL92, 1_000)
    assert refusal(lambda: on.of_request(long[3], SQL92, 1_000))[0] == 215
    assert refusal(lambda: on.of_subscription(sql(long[3]), 1_000))[0] == 215
    assert refusal(lambda: on.check(sql(long[3]), 1_000))[0] == 215
    on.of_request("price > 5", SQL92, 1_000)  # a short one fits in what is left
    on.of_request(long[0], SQL92, 1_000)  # what is compiled costs nothing
    needed = len(long[3]) + 32 - (9 * 1024 - 3 * (len(long[0]) + 32) - len("price > 5") - 32)
    soon = 1_000 + needed // 64
    assert refusal(lambda: on.of_request(long[3], SQL92, soon))[0] == 215
    on.of_request(long[3], SQL92, soon + 1)


def test_a_clock_that_goes_back_or_far_ahead_gives_no_more_than_a_burst(on: Filters) -> None:
    long = [f"price > {number} " + " " * 3_000 for number in range(10, 20)]
    for expression in long[:3]:
        on.of_request(expression, SQL92, 1_000)
    assert refusal(lambda: on.of_request(long[3], SQL92, 0))[0] == 215
    for expression in long[3:6]:
        on.of_request(expression, SQL92, 1_000_000)
    assert refusal(lambda: on.of_request(long[6], SQL92, 1_000_000))[0] == 215


@each_case("", "*")
def test_every_message_passes_the_empty_filter_and_the_star(expression: str) -> None:
    assert parse_tag_codes(expression) is None


@each_case("a||b", " a || b ", "||a|| ||b")
def test_a_filter_is_the_codes_of_its_tags(expression: str) -> None:
    assert parse_tag_codes(expression) == frozenset((tag_code("a"), tag_code("b")))


@each_case(" ", "|| ||", " || ")
def test_blanks_are_tags_that_no_message_has(expression: str) -> None:
    assert parse_tag_codes(expression) == frozenset()


def test_a_star_between_blanks_is_a_tag() -> None:
    assert parse_tag_codes(" * ") == frozenset((tag_code("*"),))


@each_case("||", "||||")
def test_a_filter_without_a_tag_answers_23(expression: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_tag_codes(expression)
    assert caught.value.code == 23
