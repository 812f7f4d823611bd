"""Differences between the brokers that are meant, each with its reason (docs/compatibility.md says what they are)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from compat.broker.steps import Step

Normal = dict[str, Any]
SENDS = {10, 310, 320, 324, 325}
REPLIES = {324, 325}
POPS = {200050, 200051, 200053, 200054, 200055, 200151}
PULLS = {11, 361}
QUEUES = {29, 30, 31, 32, 321}
FILTER = ("filterData", "subscriptionData")
DEAD_LETTER = {"WAIT", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID"}
UNANSWERED: Normal = {"unanswered": True}
BLANK = (" 7", "7 ")
PULL_CODES = {0, 19, 20, 21, 22}
NAMES = ("topic", "b", "consumerGroup", "group", "groupName", "producerGroup")
LEGAL_NAME = re.compile("[%|a-zA-Z0-9_\u00a7-]+")
NAME_IN_BODY = re.compile(b'"(?:groupName|consumerGroup)":"([^"]*)"')


Answer = int | Collection[int] | None
"""An answer's code, several, or any."""


class Reason(NamedTuple):
    """Why two answers differ, and whether the brokers differ in what they keep from then on.

    docs/compatibility.md has a row of its name, and says there what each of the two does.
    """

    name: str
    codes: Collection[int] | None = None
    """What was asked, if it matters."""
    answers: tuple[Answer, Answer] = (None, None)
    """The codes that Java and ours answer."""
    says: str = ""
    """Words of our remark."""
    more: Callable[[Step, Normal, Normal], bool] | None = None
    ends_scenario: bool = False
    is_silent: bool = False
    """The brokers may keep different things after answers that are the same."""

    def applies(self, step: Step, java: Normal, ours: Normal) -> bool:
        """Return True if this is why two answers differ."""
        return (
            (self.codes is None or step.code in self.codes)
            and all(map(_is_one_of, _codes(java, ours), self.answers))
            and self.says in (ours.get("remark") or "")
            and (self.more is None or self.more(step, java, ours))
        )


def reason_of(step: Step, java: Normal, ours: Normal) -> Reason | None:
    """Return the reason why these answers differ, None when there is none."""
    return next((reason for reason in REASONS if reason.applies(step, java, ours)), None)


def silent_reason_of(step: Step, java: Normal, ours: Normal) -> Reason | None:
    """Return why the brokers keep different things after answers that are the same, None when they do not."""
    return next((reason for reason in REASONS if reason.is_silent and reason.applies(step, java, ours)), None)


def ends_silently(step: Step, _before: Sequence[Step]) -> bool:
    """Return True if brokers keep different things after this step, by intention, though they answer the same."""
    is_bare = step.code == 34 and b'"withoutSub":true' in step.body
    return is_bare and b'"heartbeatFingerprint":0' not in step.body  # "heartbeats without subscriptions", below


def _is_exception(java: Normal) -> bool:
    """Return True if Java failed rather than refused."""
    remark = java.get("remark") or ""
    return java.get("code") == 1 and ("Exception" in remark or "Error" in remark)


def _has_illegal_name(step: Step) -> bool:
    names = [step.fields[field] for field in NAMES if field in step.fields]
    names += [name.decode() for name in NAME_IN_BODY.findall(step.body)]
    return not all(LEGAL_NAME.fullmatch(name) for name in names)


def _codes(java: Normal, ours: Normal) -> tuple[Any, Any]:
    return java.get("code"), ours.get("code")


def _is_one_of(code: int | None, wanted: Answer) -> bool:
    return wanted is None or (code == wanted if isinstance(wanted, int) else code in wanted)


def _are_refused(java: Normal, ours: Normal) -> bool:
    """Return True if both brokers answered that they will not."""
    return bool(java.get("code")) and bool(ours.get("code"))


def _is_spoilt_and_refused(step: Step, java: Normal, ours: Normal) -> bool:
    return step.is_spoilt and _are_refused(java, ours)


def _has_more(java: Normal, ours: Normal, name: str) -> bool:
    """Return True if a table of Java's is ours with more in it."""
    theirs, own = java.get("body", {}).get(name), ours.get("body", {}).get(name)
    return theirs is not None and own is not None and own.items() < theirs.items()


def _only(java: Normal, ours: Normal, *names: str) -> bool:
    """Return True if the answers differ in these places alone."""
    return all(java.get(name) == ours.get(name) for name in {*java, *ours} - {*names, "remark"})


def _without_dead_letter_marks(body: Any) -> Any:
    """Return the messages of an answer without what tells of one that it is a dead letter."""
    if not isinstance(body, list) or not all(isinstance(message, dict) for message in body):
        return body
    return [
        {
            **message,
            "properties": {name: text for name, text in message["properties"].items() if name not in DEAD_LETTER},
        }
        if "DLQ_ORIGIN_TOPIC" in message.get("properties", {}) or str(message.get("topic")).startswith("%DLQ%")
        else message
        for message in body
    ]


REASONS: tuple[Reason, ...] = (
    Reason(
        "pulls that ask for a commit without an offset",
        PULLS,
        more=lambda step, java, ours: step.is_spoilt and java == UNANSWERED,
        ends_scenario=True,
    ),
    Reason(
        "empty bodies", SENDS, more=lambda step, java, ours: not step.body and _is_exception(java), ends_scenario=True
    ),
    Reason(
        "headers that are no request's",
        more=lambda step, java, ours: step.header is not None and "closed" in ours,
        ends_scenario=True,
    ),
    Reason(
        "fields that are missing or no numbers",
        more=lambda step, java, ours: (
            step.is_spoilt and (step.code in REPLIES or step.code in POPS or java.get("code") in PULL_CODES)
        ),
        says="the field",
        ends_scenario=True,
    ),
    Reason(
        "messages sent back (36) that cannot be understood",
        (36,),
        more=_is_spoilt_and_refused,
        ends_scenario=True,
        is_silent=True,
    ),
    Reason("pulls that cannot be understood", PULLS, more=_is_spoilt_and_refused, ends_scenario=True, is_silent=True),
    Reason("sends that cannot be understood", SENDS, more=_is_spoilt_and_refused, ends_scenario=True, is_silent=True),
    Reason(
        "messages sent back (36) without the topic that they came from",
        (36,),
        more=lambda step, java, ours: _is_exception(java) and "originTopic" not in step.fields,
        ends_scenario=True,
    ),
    Reason(
        "what cannot be understood",
        more=lambda step, java, ours: (
            (step.is_spoilt or _is_exception(java)) and 0 not in _codes(java, ours) and "closed" not in (*java, *ours)
        ),
    ),
    Reason("topics without queues", SENDS, (29, 17), ends_scenario=True),
    Reason(
        "sends that are refused for more than one reason",
        SENDS,
        more=lambda step, java, ours: {*_codes(java, ours)} <= {13, 16, 17, 29},
    ),
    Reason(
        "changes of topics (17) and modes of reading (401) that are refused for more than one reason",
        (17, 401),
        more=lambda step, java, ours: _are_refused(java, ours),
    ),
    Reason("offsets of queues that are not there", QUEUES, (0, (1, 17))),
    Reason("commits for queues that are not there", (15,), (0, 1), ends_scenario=True),
    Reason(
        "groups that are new to an empty queue",
        (14,),
        (22, 0),
        more=lambda step, java, ours: ours["fields"] == {"offset": "0"},
    ),
    Reason("groups that were never created", (15,), (0, 26), ends_scenario=True),
    Reason(
        "the list of groups (201)",
        (201,),
        more=lambda step, java, ours: _has_more(java, ours, "subscriptionGroupTable"),
    ),
    Reason(
        "numbers with blanks",
        more=lambda step, java, ours: step.is_spoilt and any(text in BLANK for text in step.fields.values()),
        ends_scenario=True,
    ),
    Reason("checks (46) of a body without a subscription", (46,), (0, 1), more=lambda step, java, ours: step.is_spoilt),
    Reason("modes of reading (401)", (401,), (0, 1), says="mode", ends_scenario=True),
    Reason("delays that overflow Java's numbers", SENDS, (0, 13), says="TIMER_", ends_scenario=True),
    Reason(
        "the group's filter in the answer about a queue's entries (321)",
        (321,),
        more=lambda step, java, ours: (
            _only(java, ours, "body")
            and "body" in java
            and "body" in ours
            and {*FILTER} >= {name for name, value in java["body"].items() if ours["body"].get(name) != value}
        ),
    ),
    Reason(
        "places far below 0 of a queue's entries (321)",
        (321,),
        more=lambda step, java, ours: (
            _only(java, ours, "body")
            and java.get("remark") == "not set any response code"
            and int(step.fields["index"]) < 0
        ),
    ),
    Reason(
        "dead letters that 36 makes",
        more=lambda step, java, ours: (
            _only(java, ours, "body")
            and _without_dead_letter_marks(java.get("body")) == _without_dead_letter_marks(ours.get("body"))
        ),
    ),
    Reason(
        "messages with the property INNER_NUM",
        more=lambda step, java, ours: (
            (step.code in SENDS and _codes(java, ours) == (13, 0) and "INNER_NUM" in str(step.fields))
            or (step.code == 36 and _codes(java, ours) == (1, 0) and java["remark"] == "MESSAGE_ILLEGAL")
        ),
        ends_scenario=True,
    ),
    Reason("batches (320) with the bit INNER_BATCH in sysFlag", SENDS, (0, 13), says="BatchCQ", ends_scenario=True),
    Reason("bits of transactions in sysFlag without TRAN_MSG", SENDS, (0, 13), says="TRAN_MSG", ends_scenario=True),
    Reason(
        "messages without a key of their own",
        SENDS,
        (0, None),
        more=lambda step, java, ours: "UNIQ_KEY" not in step.fields.get("i", str(step.fields)),
        ends_scenario=True,
    ),
    Reason("batches whose sizes do not fit", SENDS, (0, None), says="batch", ends_scenario=True),
    Reason("bytes that a pull asks for", PULLS, (0, 0), more=lambda step, java, ours: "maxMsgBytes" in step.fields),
    Reason(
        "where the next pull begins",
        PULLS,
        more=lambda step, java, ours: (
            _only(java, ours, "fields")
            and {**java["fields"], "nextBeginOffset": ""} == {**ours["fields"], "nextBeginOffset": ""}
        ),
    ),
    Reason(
        "messages that are left behind those of a pop (`restNum`)",
        (200050,),
        more=lambda step, java, ours: (
            "exp" in step.fields
            and _only(java, ours, "fields")
            and {**java["fields"], "restNum": ""} == {**ours["fields"], "restNum": ""}
        ),
    ),
    Reason(
        "places in the log where no message begins (33)",
        (33,),
        (0, 1),
        more=lambda step, java, ours: str(java.get("body")).startswith("no records"),
    ),
    Reason("pops of a queue below -1", POPS, (None, 29), says="queueId[-", ends_scenario=True),
    Reason(
        "empty fields of binary headers",
        more=lambda step, java, ours: step.is_binary and "" in step.fields.values() and _is_exception(java),
        ends_scenario=True,
    ),
    Reason("pulls that ask for no message", PULLS, says="maxMsgNums", ends_scenario=True),
    Reason(
        "names", answers=(None, (17, 26, 29)), more=lambda step, java, ours: _has_illegal_name(step), ends_scenario=True
    ),
    Reason("delays in batches", SENDS, (0, 13), says="batch", ends_scenario=True),
    Reason("pulls with expressions that cannot be parsed", PULLS, (PULL_CODES, 23), ends_scenario=True),
    Reason(
        "heartbeats without subscriptions",
        (34,),
        more=lambda step, java, ours: b"heartbeatFingerprint" in step.body and _only(java, ours, "fields"),
        ends_scenario=True,
    ),
    Reason(
        "addresses' sizes",
        SENDS,
        more=lambda step, java, ours: int(step.fields.get("f", step.fields.get("sysFlag", "0"))) & 0x30 != 0,
        ends_scenario=True,
    ),
    Reason("transactions that are decided", (37,), (0, 1), ends_scenario=True),
    Reason("new times of popped messages that are done", (200053,), (0, 208), ends_scenario=True),
    Reason("cleaning of queues (306)", (306,), (1, 0), more=lambda step, java, ours: not java.get("remark")),
    Reason(
        "progress in topics that a group reads without a subscription",
        (208,),
        (0, 0),
        more=lambda step, java, ours: ours["body"]["offsetTable"].items() < java["body"]["offsetTable"].items(),
    ),
    Reason("who reads a topic", (300,), (0, 0)),
    Reason(
        "topics without a filter type",
        (17,),
        (1, 0),
        more=lambda step, java, ours: not step.fields.get("topicFilterType"),
        ends_scenario=True,
    ),
    Reason("topics (17) with a permission that is none", (17,), (0, 29), says="perm", ends_scenario=True),
    Reason("topics (17) with fewer than one queue", (17,), (0, 1), says="QueueNums", ends_scenario=True),
    Reason(
        "topics without write permission",
        SENDS,
        more=lambda step, java, ours: _codes(java, ours) in ((0, 16), (29, 16), (13, 16)),
        ends_scenario=True,
    ),
)
