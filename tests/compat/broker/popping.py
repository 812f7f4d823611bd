"""Steps of consumers that pop: messages for a time, acks, changed times, notices, and which queues a consumer reads. Pure.

The group that pops does nothing else: Java writes its offsets some time after the pops. Messages stay away longer than a
scenario lasts, so that none comes again while it is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compat.broker import values
from compat.broker.steps import BROKER_NAME, Step, Way
from compat.broker.values import pick

if TYPE_CHECKING:
    from compat.broker.scenarios import Scenario

GROUP = "\u00a7pop"
INVISIBLE_MS = "1200000"
PATIENT_MS = "20000"
POP, ACK, ACK_BATCH, CHANGE_TIME, NOTIFY, COUNT_WAITING, ASSIGN, SET_MODE = (
    200050, 200051, 200151, 200053, 200054, 200055, 400, 401,
)  # fmt: skip


def pop(scenario: Scenario) -> Step:
    """A pop of one queue, or of all queues where there is one."""
    topic = scenario.topic()
    queue = "-1" if topic == "\u00a7b" and scenario.random.random() < 0.5 else scenario.queue(topic)
    if queue == "-1" and topic != "\u00a7b":
        queue = "0"  # Java begins with any queue
    fields = {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": queue,
        "maxMsgNums": pick(scenario.random, ("1", "2", "3", "32"), ("0", "33", "100", "2147483647"), 0.04),
        "invisibleTime": INVISIBLE_MS,
        "pollTime": "0",
        "initMode": scenario.random.choice(("0", "0", "0", "1")),
    }
    if scenario.random.random() < 0.4:
        fields |= {"expType": "TAG", "exp": values.tag_expression(scenario.random)}
    elif scenario.random.random() < 0.2:
        fields |= {"expType": "SQL92", "exp": values.sql_expression(scenario.random)}
    if scenario.random.random() < 0.2:
        fields |= {"order": "false", "bname": BROKER_NAME}
    scenario.pops.append((scenario.next_number(), topic, "0" if queue == "-1" else queue))
    return Step(POP, fields, link=scenario.link())


def wait_for_a_pop(scenario: Scenario) -> list[Step]:
    """A pop that waits unless there are messages, a send that wakes it, and its answer."""
    queue = scenario.random.randrange(4)
    fields = {
        "consumerGroup": GROUP,
        "topic": "\u00a7a",
        "queueId": str(queue),
        "maxMsgNums": "32",
        "invisibleTime": INVISIBLE_MS,
        "pollTime": PATIENT_MS,
        "initMode": "0",
    }
    code = scenario.random.choice((POP, POP, NOTIFY))
    if code == POP:
        fields |= {"expType": "TAG", "exp": scenario.random.choice(("*", "red", "red || blue"))}
        scenario.pops.append((scenario.next_number(), "\u00a7a", str(queue)))
    steps = [Step(code, fields, link=1, way=Way.HOLD)]
    held = scenario.next_number()
    steps.append(scenario.plain_send("\u00a7a", queue, "red"))
    return [*steps, Step(held, link=1, way=Way.FETCH)]


def acknowledge(scenario: Scenario) -> Step:
    """An ack of a message that was popped, or of one that was not, or that is done."""
    return Step(ACK, _about_a_popped_message(scenario), link=scenario.link())


def change_time(scenario: Scenario) -> Step:
    """A new time for a popped message: its new handle counts from then on."""
    fields = _about_a_popped_message(scenario) | {"invisibleTime": INVISIBLE_MS}
    scenario.pops.append((scenario.next_number(), fields["topic"], fields["queueId"]))
    return Step(CHANGE_TIME, fields, link=scenario.link())


def _about_a_popped_message(scenario: Scenario) -> dict[str, str]:
    place = 0 if scenario.random.random() < 0.6 else scenario.random.randrange(3)
    number, topic, queue = scenario.random.choice(scenario.pops) if scenario.pops else (-1, "\u00a7a", "0")
    fields = {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": pick(scenario.random, (queue,), ("0", "3", "4"), 0.05),
        "extraInfo": f"\u27e8handle:{number}/{place}\u27e9",
        "offset": f"\u27e8popped:{number}/{place}\u27e9",
    }
    if scenario.random.random() < 0.04:
        fields["offset"] = scenario.random.choice(("-1", "1000", "9223372036854775807"))
    if scenario.random.random() < 0.1:
        fields["bname"] = BROKER_NAME
    return fields


def acknowledge_batch(scenario: Scenario) -> Step:
    """Acks of messages of a few pops."""
    pops = scenario.pops or [(-1, "\u00a7a", "0")]
    acks = [_ack(scenario, scenario.random.choice(pops)) for _ in range(scenario.random.randrange(4))]
    body = f'{{"acks":[{",".join(acks)}],"brokerName":"{BROKER_NAME}"}}'
    return Step(ACK_BATCH, {}, body.encode(), link=scenario.link())


def _ack(scenario: Scenario, popped: tuple[int, str, str]) -> str:
    number, topic, queue = popped
    bits = scenario.random.choice(("AQ==", "Aw==", "Bw==", "/w=="))
    marks = {"so": "start", "rq": "revive", "pt": "poptime", "it": "invisible"}
    numbers = "".join(f',"{name}":\u27e8{mark}:{number}/0\u27e9' for name, mark in marks.items())
    return f'{{"b":"{bits}","c":"{GROUP}","q":{queue},"r":"0","t":"{topic}"{numbers}}}'


def ask(scenario: Scenario) -> Step:
    """A question whether there are messages, or how many pops wait."""
    topic = scenario.topic()
    queue = scenario.queue(topic)
    fields = {"consumerGroup": GROUP, "topic": topic, "queueId": queue}
    if scenario.random.random() < 0.5:
        return Step(COUNT_WAITING, fields)
    return Step(NOTIFY, fields | {"pollTime": "0"}, link=scenario.link())


def assign(scenario: Scenario) -> Step:
    """A question for a consumer's queues, or how a group is to read a topic."""
    topic, group = scenario.topic(), scenario.group()
    body: dict[str, Any] = {"topic": topic, "consumerGroup": group}
    if scenario.random.random() < 0.4:
        body |= {
            "mode": pick(scenario.random, ("POP", "PULL"), ("pop", "x", ""), 0.05),
            "popShareQueueNum": scenario.random.choice((-1, 0, 1, 2)),
        }
        return Step(SET_MODE, {}, values.as_json(body))
    body |= {
        "clientId": scenario.random.choice(("\u00a7client-0", "\u00a7client-1")),
        "strategyName": pick(scenario.random, ("AVG", "AVG_BY_CIRCLE"), ("none", ""), 0.1),
        "messageModel": scenario.random.choice(("CLUSTERING", "CLUSTERING", "BROADCASTING")),
    }
    return Step(ASSIGN, {}, values.as_json(body))
