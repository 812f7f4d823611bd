"""`orbitmq topic config` and `permissions`."""

from __future__ import annotations

import pytest
import typer

from cases import each_case
from orbitmq.cli.topic_config import parse_permission
from orbitmq.model.topic import permission_word


def test_a_topics_settings_are_shown(orbitmq, topic):
    assert orbitmq("topic", "config", "show", topic).rows == [["broker-a", "2", "2", "rw", "no", "SINGLE_TAG", "-"]]


def test_what_is_named_is_changed_and_the_rest_stays(orbitmq, topic):
    changed = orbitmq("topic", "config", "set", topic, "--read-queues", 4, "--attribute", "+message.type=FIFO")
    assert changed.rows == [["broker-a", "4", "2", "rw", "no", "SINGLE_TAG", "message.type=FIFO"]]
    changed = orbitmq("topic", "config", "set", topic, "--permission", "r", "--order", "--write-queues", 3)
    assert changed.rows == [["broker-a", "4", "3", "r", "yes", "SINGLE_TAG", "message.type=FIFO"]]
    (row,) = orbitmq("topic", "config", "set", topic, "--attribute", "-message.type", "-o", "json").json
    assert (row["attributes"], row["order"]) == ({}, True)
    assert orbitmq("topic", "config", "show", topic, "--broker", "broker-a").rows[0][-1] == "-"


def test_a_retention_is_whole_hours_until_the_log_alone_decides_again(orbitmq, topic):
    for words, attribute in (("7d", "168"), ("12h", "12"), ("log", "-1")):
        changed = orbitmq("topic", "config", "set", topic, "--retention", words)
        assert changed.rows[0][-1] == f"reserve.time={attribute}"
    for words in ("90m", "0h", "forever"):
        wrong = orbitmq("topic", "create", topic, "--retention", words)
        assert (wrong.code, "--retention" in wrong.err) == (2, True)
    assert orbitmq("topic", "create", topic, "--retention", "2d").code == 0
    assert "messages are shown for 48 h" in orbitmq("topic", "show", topic).err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "nothing is to be changed"),
        (("--permission", "x"), "--permission"),
        (("--read-queues", 0), "read-queues"),
        (("--attribute", "message.type"), "attribute"),
        (("--order", "--broker", "broker-z"), "broker-a"),
        (("--order", "--cluster", "Elsewhere"), "DefaultCluster"),
    ],
)
def test_a_change_that_is_none_is_a_wrong_argument(orbitmq, topic, words, named):
    wrong = orbitmq("topic", "config", "set", topic, *words)
    assert (wrong.code, wrong.out) == (2, "")
    assert named in wrong.err


def test_an_attribute_that_topics_have_not_is_refused_in_the_brokers_words(orbitmq, topic):
    refused = orbitmq("topic", "config", "set", topic, "--attribute", "+message.kind=FIFO")
    assert (refused.code, "'message.kind'" in refused.err) == (1, True)


def test_a_topic_that_is_nowhere_is_a_negative_answer(orbitmq):
    for words in (("show", "no-such-topic"), ("set", "no-such-topic", "--order")):
        missing = orbitmq("topic", "config", *words)
        assert (missing.code, "no-such-topic is on none of the brokers broker-a" in missing.err) == (1, True)


@each_case(("rw", 6), ("r", 4), ("w", 2))
def test_a_word_and_its_bits_belong_together(word: str, perm: int) -> None:
    assert parse_permission(word) == perm
    assert permission_word(perm) == permission_word(perm | 1 | 8) == word


def test_forbidden_queues_have_a_word_of_their_own() -> None:
    assert permission_word(0) == permission_word(1) == "none"


@each_case("", "wr", "none", "6")
def test_another_word_is_told(word: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not rw, r or w"):
        parse_permission(word)
