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
"""With the prefix that makes a scenario's names its own they are longer than ours takes, or as long as it does."""
CHANGES = (15, 17, 18, 25, 34, 41, 42, 200, 222, 225, 314, 353, 401)
NEVER = (-1, -1)
"""What no broker answers: the difference is seen later only, and the scenario ends."""
LEGAL_NAME = re.compile("[%|a-zA-Z0-9_\u00a7-]+")


def reason_of(step: Step, java: Normal, ours: Normal) -> Reason | None:
    """Return the reason why these answers differ, None when there is none."""
    return next((reason for reason in (*REASONS, *OF_ALL_COMMANDS) if reason.applies(step, java, ours)), None)


def ends_silently(step: Step, before: Sequence[Step]) -> bool:
    """Return True if brokers keep different things after this step, by intention, though they answer the same."""
    if step.code == 314 and not step.fields.get("topic", "").strip():
        return True  # "copies of offsets (314) without a topic", below
    if step.code == 215:  # "resets (222) that no client has taken", below
        return any(other.code == 222 and other.fields.get("topic") == step.fields.get("topic") for other in before)
    if step.code == 18:  # "lists of topics (18) with one that stays as it is", below
        known = {name for other in before if other.code in (17, 18) for name in _names(other)}
        return not known.isdisjoint(_names(step))
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


def _known(name: str, *answered: Any, **more: Any) -> Reason:
    """Return a reason that all commands have, as it applies here."""
    known = next(reason for reason in OF_ALL_COMMANDS if reason.name == name)
    return Reason(name, *answered, **{"ends_scenario": known.ends_scenario, "is_silent": known.is_silent, **more})


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
    """Return True if Java's answer is ours, with additional groups that were never made: their offsets may be those of a deleted one."""
    theirs, own = java.get("body"), ours.get("body")
    if not isinstance(theirs, dict) or not isinstance(own, dict):
        return False
    return {group: found for group, found in theirs.items() if group in own} == own


def _retries_differ(java: Normal, ours: Normal) -> bool:
    """Return True if tables of topics differ in topics of retries alone: in their `order`, and in those that Java has without queues."""
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
        (18, 225),
        ((0, 1, 29), (1, 29)),
        ends_scenario=True,
    ),
    Reason("lists of topics (18) with one that stays as it is", answers=NEVER),
    Reason(
        "lists of topics (18) that name one twice",
        (18,),
        (1, 0),
        more=lambda step, java, ours: "Duplicate key" in java["remark"],
    ),
    Reason(
        "values of another kind in settings of groups (200)",
        (200,),
        ((0, 1), None),
        says="group configuration: ",
        ends_scenario=True,
    ),
    _known(
        "topics without a filter type",
        (17,),
        (None, 0),
        more=lambda step, java, ours: (
            not step.fields.get("topicFilterType")
            and (java.get("code") == 1 or _says(java, "parse authorization context error"))
        ),
    ),
    _known("numbers with blanks", more=lambda step, java, ours: _has_blanks(step)),
    _known(
        "empty fields of binary headers", more=lambda step, java, ours: step.is_binary and "" in step.fields.values()
    ),
    Reason(
        "groups (200) with fewer than no queues of retries, or more than 1,024",
        (200,),
        (0, 29),
        says="retryQueueNums: ",
        ends_scenario=True,
    ),
    _known("topics (17) with fewer than one queue", (17,), (0, None), says="QueueNums: "),
    _known("groups that were never created", (15, 222), ((0, 1, 17), 26)),
    Reason(
        "the topic of retries of a group with `retryQueueNums` 0",
        (15,),
        (0, 17),
        more=lambda step, java, ours: step.fields.get("topic", "").startswith("%RETRY%"),
        ends_scenario=True,
    ),
    Reason(
        "statistics (315) of a whole broker that has counted nothing yet",
        (315,),
        (0, 1),
        more=lambda step, java, ours: step.fields.get("statsName", "").startswith("BROKER_"),
    ),
    Reason(
        "the body of an answer about users (3005) of whom there are none",
        (3005,),
        more=lambda step, java, ours: java.get("body") == [] and ours.get("body") is None,
    ),
    Reason(
        "groups whose names leave no room for that of their retries",
        (352,),
        (0, 26),
        more=lambda step, java, ours: len(step.fields.get("group", "")) > GROUP_LENGTH_MAX,
        ends_scenario=True,
    ),
    Reason("copies of offsets (314) without a topic", answers=NEVER),
    Reason(
        "passwords in answers about users (3004, 3005)",
        (3004, 3005),
        (0, 0),
        more=lambda step, java, ours: _without_passwords(java.get("body")) == ours.get("body"),
    ),
    Reason(
        "what a group may read again (353)",
        (353,),
        more=lambda step, java, ours: _readable(java, ours) == (True, False),
        ends_scenario=True,
    ),
    Reason(
        "offsets of all groups (308), when a client has committed for a group without a name",
        (308,),
        (1, 0),
        more=lambda step, java, ours: _says(java, "ArrayIndexOutOf"),
    ),
    _known("the list of groups (201)", (317,), more=lambda step, java, ours: _is_more(java, ours)),
    Reason(
        "the topic of retries of a group with `retryQueueNums` 0",
        (21,),
        more=lambda step, java, ours: (
            _retries_differ(java, ours)
            and any(topic["readQueueNums"] == 0 for topic in java["body"]["topicConfigTable"].values())
        ),
    ),
    Reason(
        "the topic of retries of a group that reads a topic with `order`",
        (21,),
        more=lambda step, java, ours: _retries_differ(java, ours),
    ),
    Reason(
        "resets (222) to the place behind a queue's end",
        (222,),
        (0, 1),
        says="not in consume queue range",
        ends_scenario=True,
    ),
    Reason("resets (222) that no client has taken, of a topic that is deleted", answers=NEVER),
    Reason("remarks about clients that are too old", answers=(1, 1), says=". version="),
    Reason(
        "what one client has read (223), when another one of its group is too old to be asked",
        (223,),
        more=lambda step, java, ours: _says(java, "the client does not support") and not ours["code"],
    ),
    # What was made of it stays.
    _known(
        "fields that are missing or no numbers",
        CHANGES,
        (0, None),
        more=lambda step, java, ours: _lacks_a_field(ours),
        ends_scenario=True,
    ),
    _known("fields that are missing or no numbers", more=lambda step, java, ours: _lacks_a_field(ours)),
    _known(
        "names",
        answers=(None, (1, 17, 26, 29)),
        more=lambda step, java, ours: (
            _has_odd_name(step)
            and any(
                _says(ours, words)
                for words in ("is not allowed, expected", "The specified topic", "subscription group does not exist")
            )
        ),
    ),
    Reason("remarks about attributes that cannot be", answers=(1, 1), says="attributes: "),
    Reason(
        "attributes (17) with a second `=`",
        (17,),
        (0, 1),
        more=lambda step, java, ours: re.search("=[^,]*=", step.fields.get("attributes", "")) is not None,
        says="attributes: ",
        ends_scenario=True,
    ),
    Reason("resets (222) of queues that are not there", (222,), ((0, 1), None), says="is illegal", ends_scenario=True),
    Reason("subjects (3006, 3007) of a kind that there is not", (3006, 3007), (1, 16), says="The subject type is null"),
    Reason(
        "names of users, passwords and resources of more than 255 characters, or with others than printable ones",
        range(3001, 3011),
        (None, 16),
        says="printable characters",
        ends_scenario=True,
    ),
    Reason(
        "a group's name with %RETRY% before it",
        answers=(None, 16),
        more=lambda step, java, ours: any("%RETRY%" in name for name in _names(step)),
    ),
    Reason("rules (3006, 3007) of one request about one resource, or in two policies of one type", answers=NEVER),
    Reason(
        "deletions of a rule (3008) about a resource that is none",
        (3008,),
        ((0, 16), 16),
        says="is illegal",
        ends_scenario=True,
    ),
    Reason(
        "requests whose fields rules cannot read",
        more=lambda step, java, ours: _says(java, "parse authorization context error") and bool(ours.get("code")),
    ),
    Reason(
        "fields of a group's settings that Java 5.3.3 does not know",
        (201, 352),
        (0, 0),
        more=lambda step, java, ours: _known_alone(ours.get("body")) == java.get("body"),
    ),
    Reason(
        "requests that Java asks no rule for",
        OURS_ALONE,
        (None, 16),
        more=lambda step, java, ours: (
            _says(ours, "no permission to access") or _says(ours, "parse authorization context error")
        ),
        ends_scenario=True,
    ),
    Reason("subscriptions (345) to no topic", (345,), (1, 0), more=lambda step, java, ours: "topic" not in step.fields),
)
