"""Steps that look for messages by key, that look at a queue's entries, and that ask for messages at a time. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from compat.broker.steps import BROKER_NAME, Step
from compat.broker.values import pick

if TYPE_CHECKING:
    from compat.broker.scenarios import Scenario

QUERY, LOOK_AT_A_QUEUE, RECALL = 12, 321, 370
LONG_MAX = "9223372036854775807"
DELAYS_S = ("1200", "3600", "259000")
"""Twenty minutes to three days: nothing is delivered while a scenario is told."""


def query(scenario: Scenario) -> Step:
    """A search by a key, or by the key that a producer gives each message."""
    random = scenario.random
    fields = {
        "topic": scenario.topic(),
        "key": pick(random, ("k1", "k1", "k2", "k-\u00fc", "k3"), ("", "k1 k2", "nothing", "#"), 0.1),
        "maxNum": pick(random, ("32", "32", "1", "3"), ("0", "100", "2147483647"), 0.08),
        "beginTimestamp": pick(random, ("0",), ("-1", LONG_MAX), 0.08),
        "endTimestamp": pick(random, (LONG_MAX,), ("0", "9999999999999"), 0.1),
    }
    if random.random() < 0.4 and scenario.stored:
        number = random.choice(scenario.stored[-20:])
        fields |= {"key": f"7F000001{number:024X}", "_UNIQUE_KEY_QUERY": "true"}
        fields["topic"] = dict(scenario.steps[number].fields).get("b", fields["topic"])
    elif random.random() < 0.2:
        fields["_UNIQUE_KEY_QUERY"] = "false"
    return Step(QUERY, fields, link=scenario.link())


def look_at_a_queue(scenario: Scenario) -> Step:
    """A look at a queue's entries."""
    topic = scenario.topic()
    queue = scenario.queue(topic)
    fields = {
        "topic": topic,
        "queueId": queue,
        "index": pick(scenario.random, ("0", "0", "1", "2"), ("1000", "-1"), 0.08),
        "count": pick(scenario.random, ("10", "3", "1"), ("0", "-1"), 0.05),
    }
    if scenario.random.random() < 0.4:
        fields["consumerGroup"] = scenario.group()
    return Step(LOOK_AT_A_QUEUE, fields)


def send_for_later(scenario: Scenario) -> list[Step]:
    """A message for a time of its own, and mostly its recall."""
    random = scenario.random
    topic = random.choice(("\u00a7a", "\u00a7b", "\u00a7c"))
    send = scenario.plain_send(topic, 0, "red")
    number = scenario.next_number()
    kind = random.randrange(3)
    if kind == 0:
        asked = "TIMER_DELAY_SEC\x01" + pick(random, DELAYS_S, ("-1", "0", "259300", "x", "", LONG_MAX), 0.25)
    elif kind == 1:
        asked = "TIMER_DELAY_MS\x01" + pick(random, ("1200000", "259000000"), ("0", "-5", "260000000", "1.5"), 0.25)
    else:
        asked = "TIMER_DELIVER_MS\x01" + pick(
            random,
            ("\u27e8later:1200\u27e9", "\u27e8later:86400\u27e9"),
            ("1700000000000", "-1", "0", LONG_MAX, " 1"),
            0.25,
        )
    if random.random() < 0.1:
        asked += "\x02DELAY\x01" + random.choice(("15", "16"))
    if random.random() < 0.08:
        asked += f"\x02TIMER_DEL_UNIQKEY\x017F000001{number:024X}"
    fields = dict(send.fields)
    fields["i"] += asked + "\x02"
    recall = {
        "producerGroup": "\u00a7p",
        "topic": pick(random, (topic,), ("\u00a7a", "\u00a7other"), 0.1),
        "recallHandle": pick(random, (f"\u27e8recall:{number}\u27e9",), ("", "x", "djEgYSBi"), 0.06),
    }
    if random.random() < 0.3:
        recall["bname"] = BROKER_NAME
    return [replace(send, fields=fields), *[Step(RECALL, recall)] * random.choice((0, 1, 1, 2))]
