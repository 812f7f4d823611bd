"""Requests that clients do not send: a field gone, a number too large, a body that is none, an unusual header. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import orjson

from compat.broker import values
from compat.broker.steps import BINARY_CODE_MAX, Step

REAL_CHOICE = {10: "queueId", 310: "e", 320: "e"}
"""Queue ids that let the broker choose would make the two brokers' queues differ."""
KEPT_LONG = {"invisibleTime", "pollTime", "extraInfo"}
"""Of pops: a pop must not wait, and what it gives must not come again while the scenario is told."""
NO_NUMBERS = ("99999999999999999999", "1e3", "1.5", "", "abc", "null")
NAMES = {"topic", "b", "consumerGroup", "group", "groupName", "clientID", "username"}
"""What scenarios make under names of their own: under another name it would stay for the next one."""


def spoil(random: Random, step: Step) -> Step:
    """Return a step with something wrong."""
    spoilt: Step = random.choices(*zip(*_WAYS, strict=True))[0](random, replace(step, is_spoilt=True))
    return spoilt


def _without_a_field(random: Random, step: Step) -> Step:
    names = [name for name in step.fields if name != "clientID"]
    if not names:
        return _another_body(random, step)
    fields = dict(step.fields)
    del fields[random.choice(names)]
    return replace(step, fields=fields)


def _strange_field(random: Random, step: Step) -> Step:
    names = [name for name in step.fields if name not in NAMES]
    if not names:
        return _more_fields(random, step)
    name = random.choice(names)
    usable: tuple[str, ...] = values.NUMBERS + values.HUGE + values.TEXTS
    if name == "commitOffset":  # ours cuts a number to what the queue has
        usable = NO_NUMBERS
    if name in KEPT_LONG:
        usable = NO_NUMBERS
    if step.code in (324, 325):  # answered 1 whether they are stored or not
        usable = tuple(text for text in usable if text == text.strip())
    if name == REAL_CHOICE.get(step.code):
        usable = tuple(text for text in usable if not text.strip().startswith("-"))
    return replace(step, fields={**step.fields, name: random.choice(usable)})


def _more_fields(random: Random, step: Step) -> Step:
    more = random.choice(
        ({"unknown": "x"}, {"": ""}, {"bname": "elsewhere"}, {"lo": "true"}, {"ns": "space"}, {"nsd": "true"})
    )
    return replace(step, fields={**step.fields, **more})


def _another_body(random: Random, step: Step) -> Step:
    if step.body and random.random() < 0.3:
        return replace(step, body=step.body[: random.randrange(len(step.body))])
    return replace(step, body=values.garbage(random))


def _other_client(random: Random, step: Step) -> Step:
    return replace(
        step,
        language=random.choice(("GO", "CPP", "PYTHON", "DOTNET", "RUST", "OTHER", "JAVA")),
        version=random.choice((0, -1, 63, 315, 393, 453, 493, 32767)),
        is_binary=random.random() < 0.5 and step.code <= BINARY_CODE_MAX,
    )


def _odd_header(random: Random, step: Step) -> Step:
    """A header that is JSON, but not as clients write it; or no header at all."""
    fields = orjson.dumps(dict(step.fields)).decode()
    texts = (
        f'{{"code":{step.code},"opaque":OPAQUE,"extFields":{fields}}}',
        f'{{"code":"{step.code}","opaque":"OPAQUE","extFields":{fields}}}',
        f'{{"opaque":OPAQUE,"extFields":{fields}}}',
        f'{{"code":{step.code},"opaque":OPAQUE,"language":"KLINGON","extFields":{fields}}}',
        f'{{"code":{step.code},"opaque":OPAQUE,"more":[1,{{}}],"extFields":{fields}}}',
        f'{{"code":{step.code},"opaque":OPAQUE,"extFields":null}}',
        f'{{"code":{step.code},"opaque":OPAQUE,"version":"x"}}',
        '{"code":99999999999,"opaque":OPAQUE}',
        f"[{step.code}]",
        "no json",
        "",
    )
    header = random.choice([text.encode() for text in texts] + [b'{"code":34,"opaque":OPAQUE,"remark":"\xff"}'])
    return replace(step, header=header)


_WAYS: tuple[tuple[Callable[[Random, Step], Step], float], ...] = (
    (_without_a_field, 4),
    (_strange_field, 8),
    (_more_fields, 1),
    (_another_body, 2),
    (_other_client, 2),
    (_odd_header, 1),
)
