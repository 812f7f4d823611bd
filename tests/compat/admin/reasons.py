"""Differences in administration that are meant, each with its reason (docs/compatibility.md says what they are)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from compat.broker.reasons import REASONS as OF_ALL_COMMANDS
from compat.broker.reasons import Normal, Reason
from compat.broker.steps import Step
from orbitmq.broker.access.requirements import OURS_ALONE

NAMES = ("topic", "group", "groupName", "consumerGroup", "srcGroup", "destGroup", "compareGroup", "producerGroup")
TOPIC_LENGTH_MAX, GROUP_LENGTH_MAX = 118, 230
"""With the prefix that makes a story's names its own they are longer than ours takes, or as long as it does."""
CHANGES = (15, 17, 18, 25, 34, 41, 42, 200, 222, 225, 314, 353, 401)
LEGAL_NAME = re.compile("[%|a-zA-Z0-9_\u00a7-]+")


def reason_of(step: Step, java: Normal, ours: Normal) -> Reason | None:
    """Return the reason why these answers differ, None when there is none."""
    return next((reason for reason in (*REASONS, *OF_ALL_COMMANDS) if reason.applies(step, java, ours)), None)


def ends_silently(step: Step, before: Sequence[Step]) -> bool:
    """Tell whether brokers keep different things after this step, by intention, though they answer the same."""
    if step.code == 314 and not step.fields.get("topic", "").strip():
        return True  # "copies of offsets (314) without a topic", below
    if step.code == 215:  # "resets (222) that nobody has taken", below
        return any(other.code == 222 and other.fields.get("topic") == step.fields.get("topic") for other in before)
    if step.code in CHANGES and _has_blanks(step):
        return True  # "numbers with blanks", below
    return step.code in (3006, 3007) and _names_something_twice(step.body)  # "rules (3006, 3007) of one request", below


def _has_blanks(step: Step) -> bool:
    return any(text.strip() != text for text in step.fields.values())


def _names_something_twice(body: bytes) -> bool:
    text = body.decode("utf-8", "replace")
    resources: list[str] = re.findall(r'"resource":"([^"]*)"', text)
    is_each_of_a_type = text.count('"entries":') < 2 or ('"Default"' in text and '"Custom"' in text)
    return len(set(resources)) < len(resources) or not is_each_of_a_type


def _says(answer: Normal, words: str) -> bool:
    return words in (answer.get("remark") or "")


def _codes(java: Normal, ours: Normal) -> tuple[Any, Any]:
    return java.get("code"), ours.get("code")


def _names(step: Step) -> list[str]:
    found = [step.fields[field] for field in NAMES if field in step.fields]
    try:
        document = json.loads(step.body or b"{}")
    except ValueError:
        return found
    listed = (
        [document, *(item for value in document.values() if isinstance(value, list) for item in value)]
        if isinstance(document, dict)
        else []
    )
    for item in listed:
        if isinstance(item, dict):
            found += [value for key, value in item.items() if key in (*NAMES, "topicName") and isinstance(value, str)]
    return found


def _has_odd_name(step: Step) -> bool:
    return any(not LEGAL_NAME.fullmatch(name) or len(name) > TOPIC_LENGTH_MAX for name in _names(step))


def _known(name: str) -> Reason:
    return next(reason for reason in OF_ALL_COMMANDS if reason.name == name)


def _without_passwords(body: Any) -> Any:
    return [_without_passwords(user) for user in body] if isinstance(body, list) else {**(body or {}), "password": ""}


def _readable(java: Normal, ours: Normal) -> tuple[Any, Any]:
    theirs, own = java.get("body"), ours.get("body")
    if not isinstance(theirs, dict) or not isinstance(own, dict):
        return None, None
    return theirs.get("readable"), own.get("readable")


def _lacks_a_field(ours: Normal) -> bool:
    return bool(ours.get("code")) and any(
        _says(ours, words) for words in ("the field", "is expected", "Group:null", "Topic:null")
    )


def _known_alone(value: Any) -> Any:
    """Return what is left without the field that no broker knows."""
    if isinstance(value, dict):
        return {key: _known_alone(item) for key, item in value.items() if key != "unknown"}
    return value


def _is_more(java: Normal, ours: Normal) -> bool:
    """Tell whether Java's answer is ours, with groups beside that nobody has made: their offsets may be those of a deleted one."""
    theirs, own = java.get("body"), ours.get("body")
    if not isinstance(theirs, dict) or not isinstance(own, dict):
        return False
    return {group: found for group, found in theirs.items() if group in own} == own


def _retries_differ(java: Normal, ours: Normal) -> bool:
    """Tell whether tables of topics differ in topics of retries alone: in their `order`, and in those that Java has without queues."""
    theirs, own = (answer.get("body", {}).get("topicConfigTable") for answer in (java, ours))
    if theirs is None or own is None:
        return False
    retries = {name: topic for name, topic in theirs.items() if name.startswith("%RETRY%")}
    empty = {name for name, topic in retries.items() if topic["readQueueNums"] == 0}
    return _without(theirs, empty, retries) == _without(own, empty, retries)


def _without(table: dict[str, Any], gone: Collection[str], unordered: Collection[str]) -> dict[str, Any]:
    return {
        name: {**topic, "order": None} if name in unordered else topic
        for name, topic in table.items()
        if name not in gone
    }


REASONS: tuple[Reason, ...] = (
    Reason(
        "lists of topics (18) and groups (225) of which one is refused",
        lambda step, java, ours: (
            step.code in (18, 225) and ours.get("code") in (1, 29) and java.get("code") in (0, 1, 29)
        ),
        ends_story=True,
    ),
    Reason("lists of topics (18) with one that stays as it is", lambda step, java, ours: False),
    Reason(
        "lists of topics (18) that name one twice",
        lambda step, java, ours: step.code == 18 and _codes(java, ours) == (1, 0) and "Duplicate key" in java["remark"],
    ),
    Reason(
        "values of another kind in settings of groups (200)",
        lambda step, java, ours: (
            step.code == 200 and java.get("code") in (0, 1) and _says(ours, "group configuration: ")
        ),
        ends_story=True,
    ),
    _known("topics without a filter type")._replace(
        applies=lambda step, java, ours: (
            step.code == 17
            and not step.fields.get("topicFilterType")
            and (java.get("code") == 1 or _says(java, "parse authorization context error"))
            and ours.get("code") == 0
        )
    ),
    _known("numbers with blanks")._replace(applies=lambda step, java, ours: _has_blanks(step)),
    _known("empty fields of binary headers")._replace(
        applies=lambda step, java, ours: step.is_binary and "" in step.fields.values()
    ),
    Reason(
        "groups (200) with fewer than no queues of retries, or more than 1,024",
        lambda step, java, ours: step.code == 200 and _codes(java, ours) == (0, 29) and _says(ours, "retryQueueNums: "),
        ends_story=True,
    ),
    _known("topics (17) with fewer than one queue")._replace(
        applies=lambda step, java, ours: step.code == 17 and java.get("code") == 0 and _says(ours, "QueueNums: ")
    ),
    _known("groups that nobody has made")._replace(
        applies=lambda step, java, ours: (
            step.code in (15, 222, 352) and java.get("code") in (0, 1, 17) and ours.get("code") == 26
        )
    ),
    Reason(
        "copies of offsets (314) without a topic",
        lambda step, java, ours: False,  # seen later only: the story ends
    ),
    Reason(
        "passwords in answers about users (3004, 3005)",
        lambda step, java, ours: (
            step.code in (3004, 3005)
            and _codes(java, ours) == (0, 0)
            and _without_passwords(java.get("body")) == ours.get("body")
        ),
    ),
    Reason(
        "what a group may read again (353)",
        lambda step, java, ours: step.code == 353 and _readable(java, ours) == (True, False),
        ends_story=True,
    ),
    Reason(
        "offsets of all groups (308), when somebody has committed for a group without a name",
        lambda step, java, ours: step.code == 308 and _codes(java, ours) == (1, 0) and _says(java, "ArrayIndexOutOf"),
    ),
    _known("the list of groups (201)")._replace(
        applies=lambda step, java, ours: step.code == 317 and _is_more(java, ours)
    ),
    Reason(
        "the topic of retries of a group with `retryQueueNums` 0",
        lambda step, java, ours: (
            step.code == 21
            and _retries_differ(java, ours)
            and any(topic["readQueueNums"] == 0 for topic in java["body"]["topicConfigTable"].values())
        ),
    ),
    Reason(
        "the topic of retries of a group that reads a topic with `order`",
        lambda step, java, ours: step.code == 21 and _retries_differ(java, ours),
    ),
    Reason(
        "resets (222) to the place behind a queue's end",
        lambda step, java, ours: (
            step.code == 222 and _codes(java, ours) == (0, 1) and _says(ours, "not in consume queue range")
        ),
        ends_story=True,
    ),
    Reason(
        "resets (222) that nobody has taken, of a topic that is deleted",
        lambda step, java, ours: False,  # seen later only: the story ends
    ),
    Reason(
        "remarks about clients that are too old",
        lambda step, java, ours: _codes(java, ours) == (1, 1) and _says(ours, ". version="),
    ),
    Reason(
        "what one client has read (223), when another one of its group is too old to be asked",
        lambda step, java, ours: step.code == 223 and _says(java, "the client does not support") and not ours["code"],
    ),
    _known("fields that are missing or no numbers")._replace(
        applies=lambda step, java, ours: (
            step.code in CHANGES and java.get("code") == 0 and _lacks_a_field(ours)  # what was made of it stays
        ),
        ends_story=True,
    ),
    _known("fields that are missing or no numbers")._replace(applies=lambda step, java, ours: _lacks_a_field(ours)),
    _known("names")._replace(
        applies=lambda step, java, ours: (
            ours.get("code") in (1, 17, 26, 29)
            and _has_odd_name(step)
            and any(
                _says(ours, words)
                for words in ("is not allowed, expected", "The specified topic", "subscription group does not exist")
            )
        )
    ),
    Reason(
        "remarks about attributes that cannot be",
        lambda step, java, ours: _codes(java, ours) == (1, 1) and _says(ours, "attributes: "),
    ),
    Reason(
        "attributes (17) with a second `=`",
        lambda step, java, ours: (
            step.code == 17
            and _codes(java, ours) == (0, 1)
            and _says(ours, "attributes: ")
            and re.search("=[^,]*=", step.fields.get("attributes", "")) is not None
        ),
        ends_story=True,
    ),
    Reason(
        "resets (222) of queues that are not there",
        lambda step, java, ours: step.code == 222 and java.get("code") in (0, 1) and _says(ours, "is illegal"),
        ends_story=True,
    ),
    Reason(
        "subjects (3006, 3007) of a kind that there is not",
        lambda step, java, ours: (
            step.code in (3006, 3007) and _codes(java, ours) == (1, 16) and _says(ours, "The subject type is null")
        ),
    ),
    Reason(
        "names of users, passwords and resources of more than 255 characters, or with others than printable ones",
        lambda step, java, ours: (
            step.code in range(3001, 3011) and ours.get("code") == 16 and _says(ours, "printable characters")
        ),
        ends_story=True,
    ),
    Reason(
        "a group's name with %RETRY% before it",
        lambda step, java, ours: ours.get("code") == 16 and any("%RETRY%" in name for name in _names(step)),
    ),
    Reason(
        "rules (3006, 3007) of one request about one resource, or in two policies of one type",
        lambda step, java, ours: False,  # seen later only: the story ends
    ),
    Reason(
        "deletions of a rule (3008) about a resource that is none",
        lambda step, java, ours: (
            step.code == 3008 and java.get("code") in (0, 16) and _says(ours, "is illegal") and ours.get("code") == 16
        ),
        ends_story=True,
    ),
    Reason(
        "requests whose fields rules cannot read",
        lambda step, java, ours: _says(java, "parse authorization context error") and bool(ours.get("code")),
    ),
    Reason(
        "fields of a group's settings that Java 5.3.3 does not know",
        lambda step, java, ours: (
            step.code in (201, 352)
            and _codes(java, ours) == (0, 0)
            and _known_alone(ours.get("body")) == java.get("body")
        ),
    ),
    Reason(
        "requests that Java asks no rule for",
        lambda step, java, ours: (
            step.code in OURS_ALONE
            and ours.get("code") == 16
            and (_says(ours, "no permission to access") or _says(ours, "parse authorization context error"))
        ),
        ends_story=True,
    ),
    Reason(
        "subscriptions (345) to no topic",
        lambda step, java, ours: step.code == 345 and "topic" not in step.fields and _codes(java, ours) == (1, 0),
    ),
)
