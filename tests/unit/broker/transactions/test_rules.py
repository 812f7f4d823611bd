from __future__ import annotations

from cases import each_case
from orbitmq.broker.transactions.rules import (
    RENEW_AFTER_MS,
    CheckDecision,
    CheckRules,
    checked_once_more,
    renewed_unasked,
    times_checked,
)
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import Record, format_record, parse_record

RULES = CheckRules(6_000, 15, 72 * 3_600_000)
BORN = 1_000_000_000
IMMUNE = "CHECK_IMMUNITY_TIME_IN_SECONDS"


def half(queue_offset: int = 5, stored_at_ms: int = BORN, **properties: str) -> Record:
    record = parse_record(
        format_record(
            topic="h", body=b"", properties=format_properties(properties), queue_offset=queue_offset, born_at_ms=BORN,
            stored_at_ms=stored_at_ms,
        )
    )  # fmt: skip
    assert isinstance(record, Record)
    return record


def immune(seconds: str) -> Record:
    return half(CHECK_IMMUNITY_TIME_IN_SECONDS=seconds)


@each_case(
    (-1, CheckDecision.CHECK),
    (0, CheckDecision.STOP),
    (5_999, CheckDecision.STOP),
    (6_000, CheckDecision.CHECK),
    (72 * 3_600_000, CheckDecision.CHECK),
    (72 * 3_600_000 + 1, CheckDecision.GIVE_UP),
)
def test_a_producer_is_asked_when_its_time_is_over_and_a_message_given_up_when_it_is_old(
    age_ms: int, decision: CheckDecision
) -> None:
    assert RULES.decide(half(), {}, BORN + age_ms) is decision


@each_case(
    ("14", CheckDecision.CHECK), ("15", CheckDecision.GIVE_UP), ("x", CheckDecision.CHECK), ("-9", CheckDecision.CHECK)
)
def test_a_message_is_given_up_after_so_many_checks(text: str, decision: CheckDecision) -> None:
    assert RULES.decide(half(), {"TRANSACTION_CHECK_TIMES": text}, BORN + 6_000) is decision


@each_case(
    ("60", 59_999, CheckDecision.SKIP),
    ("60", 60_000, CheckDecision.CHECK),
    ("60", -5, CheckDecision.SKIP),
    ("3", 2_999, CheckDecision.SKIP),
    ("3", 3_000, CheckDecision.CHECK),
    ("x", 5_999, CheckDecision.SKIP),
    ("x", 6_000, CheckDecision.CHECK),
    ("9" * 500, 6_000, CheckDecision.CHECK),
)
def test_a_producer_may_ask_for_another_time(text: str, age_ms: int, decision: CheckDecision) -> None:
    assert RULES.decide(half(), {IMMUNE: text}, BORN + age_ms) is decision


def test_a_message_that_may_not_be_asked_about_goes_to_the_end_from_time_to_time() -> None:
    properties = {IMMUNE: "36000"}
    assert RULES.decide(half(), properties, BORN + RENEW_AFTER_MS - 1) is CheckDecision.SKIP
    assert RULES.decide(half(), properties, BORN + RENEW_AFTER_MS) is CheckDecision.RENEW
    again = half(stored_at_ms=BORN + RENEW_AFTER_MS)
    assert RULES.decide(again, properties, BORN + 2 * RENEW_AFTER_MS - 1) is CheckDecision.SKIP


def test_who_asked_for_a_time_without_checks_decides_within_it() -> None:
    sixty = immune("60")
    assert not RULES.is_late(sixty, BORN + 60_000)
    assert RULES.is_late(sixty, BORN + 60_001)
    assert not RULES.is_late(immune("1"), BORN + 6_000)
    assert RULES.is_late(immune("1"), BORN + 6_001)
    assert not RULES.is_late(half(), BORN + 10**9)
    assert not RULES.is_late(half(other=IMMUNE), BORN + 10**9)


def test_checks_are_counted_in_the_message() -> None:
    assert checked_once_more({}) == {"TRANSACTION_CHECK_TIMES": "1"}
    assert checked_once_more({"TRANSACTION_CHECK_TIMES": "3"}) == {"TRANSACTION_CHECK_TIMES": "4"}
    assert times_checked({"TRANSACTION_CHECK_TIMES": "1" * 13}) == 0


def test_an_unasked_message_remembers_where_it_was_first() -> None:
    assert renewed_unasked(half(), {}) == {"TRAN_PREPARED_QUEUE_OFFSET": "5"}
    assert renewed_unasked(half(9), {"TRAN_PREPARED_QUEUE_OFFSET": "5"}) == {"TRAN_PREPARED_QUEUE_OFFSET": "5"}
