"""Random commands about topics: made, changed, deleted, shown (17, 18, 215, 21, 351, 305, 300, 202). Pure."""

from __future__ import annotations

from random import Random
from typing import Any

from compat.admin import choices
from compat.broker.steps import Step
from compat.broker.values import as_json, pick

ATTRIBUTES = (
    "+message.type=NORMAL", "+message.type=DELAY", "+message.type=FIFO", "+message.type=TRANSACTION", "+message.type=UNSPECIFIED",
    "-message.type", "+cleanup.policy=DELETE", "-cleanup.policy", "+queue.type=SimpleCQ", "-queue.type",
)  # fmt: skip
ODD_ATTRIBUTES = (
    "+message.type=MIXED", "+message.type=x", "+message.type=", "+message.type=normal", "message.type=FIFO", "+message.type",
    "-message.type=FIFO", "+", "-", "x", ",", ",,", "+=", "+=x", "-x", "+unknown=1", "+reserve.time=5", "+reserve.time=-1", "+reserve.time=x",
    "+cleanup.policy=x", "+message.type=NORMAL,", ",+message.type=NORMAL", "+message.type=NORMAL,-message.type",
    "+message.type=NORMAL,+message.type=DELAY", "+message.type = NORMAL", " +message.type=NORMAL", "+message.type=NORMAL=x", "\u00fc",
)  # fmt: skip


def create(topic: str, count: int) -> Step:
    """Return what makes one of the scenario's topics."""
    numbers = {"readQueueNums": str(count), "writeQueueNums": str(count)}
    return Step(
        17,
        {
            "topic": topic,
            **numbers,
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "order": "false",
            "defaultTopic": "TBW102",
        },
    )


def change(random: Random) -> Step:
    """Make or change a topic."""
    fields = {
        "topic": pick(random, ("\u00a7c", "\u00a7c", "\u00a7new"), choices.TOPICS_TO_CHANGE, 0.25),
        "defaultTopic": choices.text(random, ("TBW102",), 0.05),
        "readQueueNums": choices.number(random, ("1", "2", "3", "8", "16"), 0.05),
        "writeQueueNums": choices.number(random, ("1", "2", "3", "8", "16"), 0.05),
        "perm": pick(random, ("6", "6", "4", "2"), ("0", "7", "3", "1", "8", "-1", "2147483647", "x", ""), 0.1),
        "topicFilterType": pick(random, ("SINGLE_TAG",), ("MULTI_TAG", "x", "", "single_tag"), 0.08),
        "order": choices.truth(random, 0.06) if random.random() < 0.2 else "false",
    }
    if random.random() < 0.7:
        fields["topicSysFlag"] = choices.number(random, ("0", "0", "1", "2", "3", "4"), 0.05)
    if random.random() < 0.5:
        fields["attributes"] = attributes(random)
    if random.random() < 0.3:
        fields["force"] = choices.truth(random)
    return Step(17, choices.some(random, fields, 0.02))


def attributes(random: Random) -> str:
    """Return changes of attributes."""
    return pick(random, ("", random.choice(ATTRIBUTES), ",".join(random.sample(ATTRIBUTES, 2))), ODD_ATTRIBUTES, 0.3)


def change_many(random: Random) -> Step:
    """Make or change topics in one request."""
    topics = [_document(random) for _ in range(random.choice((0, 1, 1, 2, 2, 3)))]
    body: Any = {"topicConfigList": topics}
    if random.random() < 0.06:
        body = random.choice(
            (
                {},
                {"topicConfigList": None},
                {"topicConfigList": {}},
                {"topicConfigList": [1]},
                {"topicConfigList": [None]},
                [],
            )
        )
    return Step(18, {}, as_json(body))


NO_NAMES = (None, "", [], [1], {}, {"a": 1})
"""Of a topic: texts, numbers and truths would be names, which all scenarios share."""


def _document(random: Random) -> dict[str, Any]:
    document: dict[str, Any] = {
        "topicName": pick(random, ("\u00a7new", "\u00a7other", "\u00a7c"), choices.TOPICS_TO_CHANGE, 0.15),
        "readQueueNums": random.choice((1, 2, 8)),
        "writeQueueNums": random.choice((1, 2, 8)),
        "perm": random.choice((6, 6, 4, 2)),
        "topicFilterType": random.choice(("SINGLE_TAG", "SINGLE_TAG", "SINGLE_TAG", "MULTI_TAG")),
        "topicSysFlag": random.choice((0, 0, 1)),
        "order": random.random() < 0.1,
        "attributes": _attribute_map(random),
    }
    for name in list(document):
        if name != "topicName" and random.random() < 0.08:
            del document[name]
        elif random.random() < 0.02:
            document[name] = choices.odd_json(random) if name != "topicName" else random.choice(NO_NAMES)
    if random.random() < 0.05:
        document["unknown"] = choices.odd_json(random)
    return document


def _attribute_map(random: Random) -> dict[str, str]:
    if random.random() < 0.5:
        return {}
    return {
        key: pick(random, ("NORMAL", "DELETE", "SimpleCQ", "DELAY"), ("x", "", "MIXED"), 0.2)
        for key in random.sample(
            ("+message.type", "-message.type", "+cleanup.policy", "message.type", "+x", "", "+"),
            random.choice((1, 1, 2)),
        )
    }


def delete(random: Random) -> Step:
    """Delete a topic."""
    return Step(
        215,
        choices.some(random, {"topic": pick(random, (*choices.NEW_TOPICS, "\u00a7c"), choices.TOPICS_TO_CHANGE, 0.4)}),
    )


def ask(random: Random) -> Step:
    """Ask about topics."""
    code = random.choice((21, 202, 202, 300, 300, 305, 351, 351))
    if code in (21, 305):
        return Step(code)
    fields = {"topic": choices.topic(random, 0.3)}
    if code == 351 and random.random() < 0.3:
        fields["lo"] = choices.truth(random)
    return Step(code, choices.some(random, fields))
