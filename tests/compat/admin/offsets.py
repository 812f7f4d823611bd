"""Random commands about offsets and messages (14, 15, 29 to 33, 12, 321, 222, 303, 308, 43, 45, 208, 317, 323). Pure."""

from __future__ import annotations

from random import Random

from compat.admin import choices
from compat.broker.steps import BROKER_NAME, Step
from compat.broker.values import pick

TIMES = ("0", "-1", "1", "9223372036854775807", "-9223372036854775808", "-2")


def commit(random: Random, sent: int) -> Step:
    """Commit an offset that the queue may have."""
    topic = pick(random, tuple(choices.TOPICS), ("%RETRY%\u00a7g", "\u00a7new"), 0.05)
    return Step(
        15,
        {
            "consumerGroup": choices.group(random, 0.05),
            "topic": topic,
            "queueId": str(random.randrange(choices.TOPICS.get(topic, 1))),
            "commitOffset": f"\u27e8end:{topic}/0/{random.choice((0, 50, 100))}\u27e9" if topic == "\u00a7b" else "0",
        },
    )


def ask(random: Random, marks: list[int]) -> Step:
    """Ask for one offset or one time."""
    topic = choices.topic(random)
    fields = {"topic": topic, "queueId": choices.queue(random, topic)}
    code = random.choice((14, 14, 29, 29, 30, 31, 32))
    if code == 14:
        fields["consumerGroup"] = choices.group(random)
        if random.random() < 0.5:
            fields["setZeroIfNotFound"] = choices.truth(random)
    if code == 29:
        fields["timestamp"] = time(random, marks)
        if random.random() < 0.6:
            fields["boundaryType"] = random.choice(("lower", "upper", "LOWER", "UPPER", "middle", ""))
    if code == 30 and random.random() < 0.4:
        fields["committed"] = choices.truth(random)
    return Step(code, choices.some(random, fields))


def time(random: Random, marks: list[int]) -> str:
    """Return a moment of the scenario, or a time outside of it."""
    return pick(random, (f"\u27e8time:{random.choice(marks)}\u27e9",), TIMES, 0.2)


def progress(random: Random) -> Step:
    """Ask how far groups are."""
    code = random.choice((208, 208, 208, 303, 303, 308, 317, 43, 45))
    if code in (43, 45):
        return Step(code)
    if code == 317:
        return Step(code, choices.some(random, {"isOrder": choices.truth(random)}, 0.2))
    topic = choices.topic(random)
    if code == 303:
        return Step(code, choices.some(random, {"topic": topic, "group": choices.group(random)}))
    if code == 308:
        fields = {"topic": topic, "compareGroup": choices.group(random)}
        if random.random() < 0.15:
            fields["filterGroups"] = random.choice(("", "\u00a7nobody", "\u00a7nobody,\u00a7other", ","))
        return Step(code, choices.some(random, fields))
    fields = {"consumerGroup": choices.group(random)}
    if random.random() < 0.7:
        fields["topic"] = topic
    if random.random() < 0.2:
        fields["topicList"] = random.choice(
            (
                "\u00a7a",
                "\u00a7a;\u00a7b",
                "\u00a7a;\u00a7a",
                ";",
                "",
                "no such",
                "\u00a7a,\u00a7b",
                " \u00a7a",
                "\u00a7a;no such;",
            )
        )
    return Step(208, choices.some(random, fields))


def reset(random: Random, marks: list[int]) -> Step:
    """Set where a group goes on."""
    topic = choices.topic(random, 0.08)
    fields = {
        "topic": topic,
        "group": choices.group(random, 0.08),
        "timestamp": time(random, marks),
        "isForce": choices.truth(random, 0.03),
    }
    if random.random() < 0.7:
        fields["queueId"] = pick(random, ("-1", "0", "1"), ("4", "900", "-2", "2147483647"), 0.1)
    if random.random() < 0.5:
        fields["offset"] = pick(
            random, ("0", "1", "2", "-1"), ("3", "5", "-2", "100", "9223372036854775807", "-9223372036854775808"), 0.2
        )
    return Step(222, choices.some(random, fields, 0.02), language=random.choice(("JAVA", "JAVA", "JAVA", "CPP", "GO")))


def messages(random: Random, stored: list[int], marks: list[int]) -> Step:
    """Ask for messages."""
    code = random.choice((33, 12, 12, 321, 321, 323))
    number = random.choice(stored[-20:]) if stored else None
    if code == 33:
        offset = "99999999999" if number is None else f"\u27e8offset:{number}\u27e9"
        return Step(
            33,
            choices.some(
                random,
                {
                    "offset": pick(random, (offset,), ("-1", "99999999999", "-9223372036854775808"), 0.15),
                    "topic": choices.topic(random),
                },
            ),
        )
    if code == 323:
        return Step(
            323,
            choices.some(
                random,
                {
                    "msgId": pick(
                        random, ("x",), ("", "7F00000100002A9F", "7F00000100002A9F000000174876E7FF", "\u00fc"), 0.8
                    ),
                    "topic": choices.topic(random),
                },
            ),
        )
    topic = choices.topic(random)
    if code == 321:
        fields = {
            "topic": topic,
            "queueId": choices.queue(random, topic),
            "index": pick(random, ("0", "0", "1", "2"), ("-1", "100", "9223372036854775807"), 0.1),
            "count": choices.number(random, ("10", "1", "32"), 0.05),
        }
        if random.random() < 0.5:
            fields["consumerGroup"] = choices.group(random)
        return Step(321, choices.some(random, fields))
    fields = {
        "topic": topic,
        "key": pick(random, ("k1", "k2"), ("", "no key", "\u00fc", "k1 k2", "*"), 0.15),
        "maxNum": pick(random, ("32", "1", "64"), ("0", "-1", "2147483647", "x"), 0.1),
        "beginTimestamp": pick(random, ("0",), ("-1", "9223372036854775807"), 0.05),
        "endTimestamp": pick(random, ("9223372036854775807",), ("0", "-1"), 0.1),
    }
    return Step(12, choices.some(random, fields))


def send(random: Random, number: int) -> Step:
    """Store a message with a key."""
    topic = random.choice(tuple(choices.TOPICS))
    properties = (
        f"UNIQ_KEY\x017F000001{number:024X}\x02KEYS\x01{random.choice(('k1', 'k2', 'k1 k2'))}\x02TAGS\x01red\x02"
    )
    fields = {
        "a": "\u00a7p", "b": topic, "c": "TBW102", "d": "4", "e": str(random.randrange(choices.TOPICS[topic])), "f": "0",
        "g": "1700000000000", "h": "0", "i": properties, "j": "0", "k": "false", "m": "false", "n": BROKER_NAME,
    }  # fmt: skip
    return Step(310, fields, b"a message")
