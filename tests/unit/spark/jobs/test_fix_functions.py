from __future__ import annotations

import sys

import pytest

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.model.message import BODY_SIZE_MAX
from orbitmq.spark.jobs.fix_functions import BEYOND_HELP, REASON, TOPIC, DeadLetterRecord, fix_letter, load_fix

NOTED = {"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": "7F", "RETRY_TOPIC": "orders", "DELAY": "0"}
LETTER = DeadLetterRecord(b"bad", "t", ("k",), {**NOTED, "own": "1", "__SHARDINGKEY": "s"}, 3)


def fixed(fix, letter=LETTER, topics=("orders",)):
    return fix_letter(letter, fix, frozenset(topics), "hopeless")


def test_a_fixed_letter_goes_to_its_topic_as_it_was_once_sent():
    seen = []

    def fix(body, properties):
        seen.append((body, properties))
        return b"good"

    message, reason = fixed(fix)
    assert seen == [(b"bad", LETTER.properties)]
    assert (message.topic, message.body, message.tag, message.keys) == ("orders", b"good", "t", ("k",))
    assert (message.flag, message.sharding_key, reason) == (3, "s", None)
    assert message.properties == {"own": "1", "DLQ_ORIGIN_MESSAGE_ID": "7F"}


def test_a_letter_of_javas_broker_tells_its_topic_and_id_by_the_retry():
    message, _ = fixed(lambda *_: b"", LETTER._replace(properties={"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "8F"}))
    assert (message.topic, message.properties) == ("orders", {"DLQ_ORIGIN_MESSAGE_ID": "8F"})


def test_a_function_cannot_change_a_letters_properties():
    def fix(body, properties):
        properties.clear()
        return body

    assert fixed(fix).message.properties["own"] == "1"


def fails(body, properties):
    raise ValueError("no\nnumber")


@each_case(
    (lambda *_: None, BEYOND_HELP),
    (lambda *_: "text", "the function returned str, not bytes"),
    (fails, "ValueError: no number"),
    (lambda *_: bytes(BODY_SIZE_MAX + 1), "InvalidArgument: body"),
)
def test_a_letter_that_is_not_fixed_goes_to_quarantine_with_the_reason(fix, reason):
    message, told = fixed(fix)
    assert (message.topic, message.body, message.sharding_key) == ("hopeless", b"bad", "s")
    assert told.startswith(reason)
    assert message.properties == {"own": "1", "DLQ_ORIGIN_MESSAGE_ID": "7F", REASON: told, TOPIC: "orders"}


def test_a_letter_that_cannot_be_decoded_goes_to_quarantine_unseen():
    message, told = fixed(lambda body, _: body, LETTER._replace(decode_error="cut short"))
    assert (message.topic, message.body, told) == ("hopeless", b"bad", "the body cannot be decoded: cut short")


def test_a_letter_without_a_topic_goes_to_quarantine_unseen():
    message, told = fixed(fails, LETTER._replace(properties={}))
    assert (message.topic, message.properties) == ("hopeless", {REASON: told})
    assert told == "nothing tells which topic it came from"
    assert fixed(fails, topics=()).reason == "there is no topic orders"


@each_case("a b", "x" * 200, "%RETRY%billing", "%DLQ%billing", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")
def test_a_letter_that_names_no_topic_of_users_goes_to_quarantine_unseen(origin):
    message, told = fixed(fails, LETTER._replace(properties={"DLQ_ORIGIN_TOPIC": origin}), topics=[origin])
    assert (message.topic, message.properties) == ("hopeless", {REASON: told, TOPIC: origin})
    assert told == f"it names {origin}, which is not a topic of users"[:200]


def test_a_long_reason_is_cut():
    def fix(body, properties):
        raise ValueError("x" * 10_000)

    assert len(fixed(fix).reason) == 200


def test_a_function_is_found_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "fixes_of_a_test.py").write_text("LIMIT = 1\ndef repair(body, properties):\n    return body\n")
    (tmp_path / "broken_of_a_test.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    assert load_fix("fixes_of_a_test:repair")(b"a", {}) == b"a"
    for name, told in {
        "repair": "module:function",
        ":repair": "module:function",
        "fixes_of_a_test:": "module:function",
        "fixes_of_a_test:none": "has no attribute 'none'",
        "fixes_of_a_test:LIMIT": "a function, not int",
        "broken_of_a_test:repair": "no_such_module_at_all",
    }.items():
        with pytest.raises(ConfigError, match=told):
            load_fix(name)
