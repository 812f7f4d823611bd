"""Random commands about groups: settings, topics, copies, what is forbidden (200, 225, 201, 207, 352, 353, 314, 343, 345, 401). Pure."""

from __future__ import annotations

from random import Random
from typing import Any

from compat.admin import choices
from compat.broker.steps import Step
from compat.broker.values import as_json, pick


def settings(random: Random, group: str) -> dict[str, Any]:
    """Return a group's settings, with something odd in them at times."""
    body: dict[str, Any] = {
        "groupName": group,
        "consumeEnable": random.random() < 0.9,
        "consumeFromMinEnable": random.random() < 0.9,
        "consumeBroadcastEnable": random.random() < 0.7,
        "consumeMessageOrderly": random.random() < 0.1,
        "retryQueueNums": random.choice((1, 1, 2, 0)),
        "retryMaxTimes": random.choice((16, 16, 0, 2, -1)),
        "brokerId": random.choice((0, 0, 1)),
        "whichBrokerWhenConsumeSlowly": random.choice((1, 1, 2)),
        "notifyConsumerIdsChangedEnable": random.random() < 0.9,
        "groupSysFlag": random.choice((0, 0, 1)),
        "consumeTimeoutMinute": random.choice((15, 15, 1, 0, -1)),
    }
    if random.random() < 0.15:
        body["groupRetryPolicy"] = random.choice(RETRY_POLICIES)
    if random.random() < 0.1:
        body["subscriptionDataSet"] = random.choice(
            (
                None,
                [],
                [{"topic": "\u00a7a", "expressionType": "TAG", "expression": "*", "version": 1}],
                [{"topic": "\u00a7b", "expressionType": "TAG", "expression": "red", "version": 3}],
            )
        )
    if random.random() < 0.1:
        body["attributes"] = random.choice(({}, {}, None, {"+x": "1"}, {"x": "1"}, {"-x": ""}, {"": ""}))
    for name in list(body):
        if name != "groupName" and random.random() < 0.05:
            del body[name]
        elif name != "groupName" and random.random() < 0.015:
            body[name] = choices.odd_json(random)
    if random.random() < 0.05:
        body["unknown"] = choices.odd_json(random)
    return body


RETRY_POLICIES: tuple[Any, ...] = (
    {"type": "CUSTOMIZED"},
    {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}},
    {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2}},
    {"type": "EXPONENTIAL"},
    {"type": "x"},
    {},
    None,
)


def settle(random: Random) -> Step:
    """Make or change a group."""
    return Step(200, {}, as_json(settings(random, choices.group(random))))


def settle_many(random: Random) -> Step:
    """Make or change groups in one request."""
    groups: list[Any] = [settings(random, choices.group(random)) for _ in range(random.choice((0, 1, 2, 3)))]
    if random.random() < 0.05:
        groups.append(random.choice((None, 1, {}, {"groupName": None}, {"groupName": 7}, "x")))
    body: Any = {"groupConfigList": groups}
    if random.random() < 0.05:
        body = random.choice(({}, {"groupConfigList": None}, {"groupConfigList": {}}, [], {"groupConfigList": "x"}))
    return Step(225, {}, as_json(body))


def delete(random: Random) -> Step:
    """Delete a group."""
    fields = {"groupName": choices.group(random)}
    if random.random() < 0.6:
        fields["cleanOffset"] = choices.truth(random)
    return Step(207, choices.some(random, fields))


def ask(random: Random) -> Step:
    """Ask about groups."""
    code = random.choice((201, 352, 352, 343, 343, 345, 345, 38))
    if code == 201:
        return Step(code)
    name = "consumerGroup" if code == 38 else "group"
    fields = {name: choices.group(random)}
    if code == 345:
        fields["topic"] = choices.topic(random)
    return Step(code, choices.some(random, fields))


def forbid(random: Random) -> Step:
    """Forbid a group a topic, allow it, or ask."""
    fields = {"group": choices.group(random), "topic": choices.topic(random)}
    if random.random() < 0.7:
        fields["readable"] = choices.truth(random)
    return Step(353, choices.some(random, fields))


def copy(random: Random) -> Step:
    """Copy a group's offsets."""
    fields = {"srcGroup": choices.group(random), "destGroup": choices.group(random), "topic": choices.topic(random)}
    if random.random() < 0.5:
        fields["offline"] = choices.truth(random)
    return Step(314, choices.some(random, fields))


def read_mode(random: Random) -> Step:
    """Set how a group reads a topic, or ask for all of them."""
    if random.random() < 0.3:
        return Step(402)
    body: dict[str, Any] = {
        "topic": choices.topic(random),
        "consumerGroup": choices.group(random),
        "mode": pick(random, ("PULL", "POP"), ("pop", "", "x"), 0.1),
        "popShareQueueNum": random.choice((0, 0, 1, 5, -1)),
    }
    if random.random() < 0.1:
        del body[random.choice(list(body))]
    return Step(401, {}, as_json(body))
