"""Random commands of and about clients: who is there, what they do, locks (34, 35, 38, 203, 204, 328, 307, 309, 223, 41, 42, 46, 400). Pure."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from compat.admin import choices
from compat.broker.steps import BROKER_NAME, Step
from compat.broker.values import as_json, pick
from orbitmq.wire.command import FLAG_RESPONSE, Command

NO_MESSAGE = "7F00000100002A9F000000174876E7FF"


def heartbeat(random: Random) -> Step:
    """Say that a client is there, and what it reads."""
    link = random.randrange(2)
    groups = [_member(random, group) for group in random.sample(choices.GROUPS, random.randrange(3))]
    producers = [{"groupName": "\u00a7p"}] if random.random() < 0.6 else []
    body: dict[str, Any] = {"clientID": choices.CLIENTS[link], "consumerDataSet": groups, "producerDataSet": producers}
    return Step(
        34, {}, as_json(body), link=link, language=random.choice(("JAVA", "JAVA", "GO", "CPP", "PYTHON")),
        version=random.choice((0, 1, 40) if random.random() < 0.08 else (479, 493, 399)),
    )  # fmt: skip


def _member(random: Random, group: str) -> dict[str, Any]:
    return {
        "groupName": group,
        "consumeFromWhere": random.choice(
            ("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP")
        ),
        "consumeType": random.choice(("CONSUME_PASSIVELY", "CONSUME_ACTIVELY")),
        "messageModel": pick(random, ("CLUSTERING",), ("BROADCASTING",), 0.1),
        "unitMode": False,
        "subscriptionDataSet": [
            _subscription(random, topic) for topic in random.sample(tuple(choices.TOPICS), random.randrange(4))
        ],
    }


def _subscription(random: Random, topic: str) -> dict[str, Any]:
    expression = random.choice(("*", "red", "red||blue"))
    tags = [] if expression == "*" else expression.split("||")
    codes = {"red": 112785, "blue": 3027034}
    return {
        "topic": topic, "subString": expression, "expressionType": "TAG", "subVersion": random.choice((0, 1, 2)),
        "classFilterMode": False, "tagsSet": tags, "codeSet": [codes[tag] for tag in tags],
    }  # fmt: skip


def leave(random: Random) -> Step:
    """Say that a client goes."""
    link = random.randrange(2)
    fields = {"clientID": choices.CLIENTS[link]}
    if random.random() < 0.8:
        fields["consumerGroup"] = random.choice(choices.GROUPS)
    if random.random() < 0.5:
        fields["producerGroup"] = "\u00a7p"
    return Step(35, fields, link=link)


def ask(random: Random) -> Step:
    """Ask who is there."""
    code = random.choice((203, 203, 204, 328))
    if code == 328:
        return Step(code)
    if code == 204:
        return Step(code, choices.some(random, {"producerGroup": pick(random, ("\u00a7p",), choices.ODD_GROUPS, 0.2)}))
    return Step(code, choices.some(random, {"consumerGroup": choices.group(random)}))


def inquire(random: Random, stored: list[int]) -> Step:
    """Ask a client something through the broker."""
    code = random.choice((307, 307, 309, 223))
    group, client = choices.group(random, 0.08), choices.client(random)
    link = random.randrange(2)
    if code == 223:
        fields = {"topic": choices.topic(random), "group": group}
        if random.random() < 0.6:
            fields["clientAddr"] = client
        return Step(code, choices.some(random, fields), link=link)
    fields = {"consumerGroup": group, "clientId": client}
    if code == 307:
        fields["jstackEnable"] = choices.truth(random, 0.05)
    else:
        number = random.choice(stored[-20:]) if stored else None
        known = NO_MESSAGE if number is None else f"\u27e8id:{number}\u27e9"
        fields["msgId"] = pick(random, (known,), (NO_MESSAGE, "x", "", "\u00fc"), 0.1)
        fields["brokerName"] = choices.text(random, (BROKER_NAME,), 0.05)
        if random.random() < 0.5:
            fields["topic"] = choices.topic(random)
    return Step(code, choices.some(random, fields), link=link)


def lock(random: Random) -> Step:
    """Lock queues, or let them go."""
    queues = []
    for _ in range(random.randrange(4)):
        topic = choices.topic(random)
        queues.append(
            {
                "topic": topic,
                "brokerName": pick(random, (BROKER_NAME,), ("elsewhere", ""), 0.05),
                "queueId": int(choices.queue(random, topic)),
            }
        )
    body: dict[str, Any] = {
        "consumerGroup": choices.group(random),
        "clientId": choices.client(random),
        "mqSet": queues,
        "onlyThisBroker": random.random() < 0.3,
    }
    if random.random() < 0.06:
        name = random.choice(tuple(body))
        if random.random() < 0.5:
            del body[name]
        else:
            body[name] = choices.odd_json(random)
    return Step(random.choice((41, 41, 42)), {}, as_json(body))


def answer(request: Command) -> Command:
    """Answer what a broker asks a client."""
    fields = request.ext_fields or {}
    bodies: dict[int, Any] = {
        307: {"properties": {"PROP_NAMESERVER_ADDR": "here", "jstack": str(fields.get("jstackEnable", "").lower() == "true")}, "subscriptionSet": [], "mqTable": {}, "statusTable": {}},
        309: {"order": False, "autoCommit": True, "consumeResult": "CR_SUCCESS", "remark": f"{len(request.body) > 0}", "spentTimeMills": 3},
        221: {"messageQueueTable": {}, "consumerTable": {}},
    }  # fmt: skip
    body = bodies.get(request.code)
    return Command(0, request.opaque, FLAG_RESPONSE, body=b"" if body is None else json.dumps(body).encode())
