"""Random commands about users and rules, and commands that rules allow or not (3001 to 3010, and what they guard). Pure."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from compat.admin import choices
from compat.broker.steps import CLUSTER, Step
from compat.broker.values import as_json, garbage, pick

ROOT = ("root", "root-secret")
USERS = ("\u00a7anna", "\u00a7ben")
SECRETS = ("pw-1", "pw-2")
ODD_USERS = ("\u00a7nobody", "", " ", "\u00a7\u00fc", "root", "\u00a7" + "x" * 300, "\u00a7a b", "\u00a7null")
RESOURCES = (
    "Topic:\u00a7a", "Topic:\u00a7*", "Topic:*", "Group:\u00a7g", "Group:*", "Group:\u00a7*", f"Cluster:{CLUSTER}", "Cluster:*", "*",
    "Topic:\u00a7b", "Topic:\u00a7c",
)  # fmt: skip
ODD_RESOURCES = (
    "Topc:\u00a7a",
    "Topic:",
    "topic:\u00a7a",
    ":",
    "",
    "\u00a7a",
    "Topic:a:b",
    "Topic:\u00a7*a",
    "Namespace:x",
    "Topic:\u00fc",
    " Topic:\u00a7a",
)
ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
ODD_ACTIONS = ("Any", "Put", "", "pub", "ALL", " Pub")
ADDRESSES = ("127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "192.168.0.1", "::1", "127.0.0.1,10.0.0.1")
ODD_ADDRESSES = ("10.0.0", "x", "*", "127.0.0.*", "", "300.0.0.1", "10.0.0.0/99", "127.0.0.1-20")


def signed(random: Random, step: Step, chance: float = 0.3) -> Step:
    """Let a step be signed: by the super user mostly, by another user or not at all at times."""
    if random.random() < chance:
        name = pick(random, USERS, ("\u00a7nobody", "root", ""), 0.15)
        if name:
            return replace(step, user=name, secret=random.choice((*SECRETS, SECRETS[0], "wrong")))
        return step
    return replace(step, user=ROOT[0], secret=ROOT[1])


def user(random: Random) -> Step:
    """Make, change, delete or show a user."""
    code = random.choice((3001, 3001, 3002, 3002, 3003, 3004, 3004, 3005))
    if code == 3005:
        fields = {"filter": pick(random, ("\u00a7", "\u00a7a", "\u00a7nobody-like-this"), ("\u00fc\u00fc",), 0.1)}
        return signed(random, Step(code, fields))
    name = pick(random, USERS, ODD_USERS, 0.2)
    if code in (3003, 3004):
        name = "\u00a7nobody" if name == "root" else name
        return signed(random, Step(code, choices.some(random, {"username": name})))
    name = "\u00a7nobody" if name == "root" else name
    body: dict[str, Any] = {
        "username": pick(random, (name,), ("root", "\u00a7other", ""), 0.1),
        "password": random.choice(SECRETS),
    }
    if random.random() < 0.4:
        body["userType"] = pick(random, ("Normal", "Normal", "Super"), ("normal", "SUPER", "x", "", "7"), 0.2)
    if random.random() < 0.3:
        body["userStatus"] = pick(random, ("enable", "disable"), ("ENABLE", "x", "", "true"), 0.2)
    for key in list(body):
        if random.random() < 0.06:
            del body[key]
        elif random.random() < 0.03:
            body[key] = choices.odd_json(random)
    encoded = garbage(random) if random.random() < 0.04 else as_json(body)
    return signed(random, Step(code, choices.some(random, {"username": name}), encoded))


def rules(random: Random) -> Step:
    """Make, change, delete or show rules."""
    code = random.choice((3006, 3006, 3007, 3008, 3009, 3009, 3010))
    subject = pick(
        random,
        tuple(f"User:{name}" for name in USERS),
        ("User:\u00a7nobody", "user:\u00a7anna", "\u00a7anna", "", "User:", "Usr:\u00a7anna", "User:a:b", " "),
        0.15,
    )
    if code == 3010:
        fields = {"subjectFilter": pick(random, ("\u00a7", "\u00a7anna"), ("\u00a7nobody",), 0.2)}
        if random.random() < 0.4:
            fields["resourceFilter"] = random.choice(("Topic", "Group", "\u00a7a", "no such", "*", ""))
        return signed(random, Step(code, fields))
    fields = {"subject": subject}
    if code == 3008:
        if random.random() < 0.6:
            fields["resource"] = pick(random, RESOURCES, ODD_RESOURCES, 0.1)
        if random.random() < 0.3:
            fields["policyType"] = pick(random, ("Custom", "Default"), ("x", "", "custom"), 0.2)
        return signed(random, Step(code, choices.some(random, fields)))
    if code == 3009:
        return signed(random, Step(code, choices.some(random, fields)))
    body: Any = {"subject": subject, "policies": _policies(random)}
    if random.random() < 0.06:
        body = random.choice(
            (
                {},
                {"policies": []},
                {"policies": None},
                {"policies": [{}]},
                {"policies": [{"entries": []}]},
                {"policies": {}},
                {"policies": [None]},
                [],
            )
        )
    if isinstance(body, dict) and random.random() < 0.1:
        body.pop("subject", None)
    encoded = garbage(random) if random.random() < 0.03 else as_json(body)
    return signed(random, Step(code, choices.some(random, fields), encoded))


def _policies(random: Random) -> list[dict[str, Any]]:
    policies = [_policy(random) for _ in range(random.choice((1, 1, 1, 2)))]
    if len(policies) > 1 and random.random() < 0.9:  # two of one type end a scenario
        policies[0]["policyType"], policies[1]["policyType"] = random.sample(("Custom", "Default"), 2)
    return policies


def _policy(random: Random) -> dict[str, Any]:
    entries = [_entry(random) for _ in range(random.choice((1, 1, 2, 3)))]
    policy: dict[str, Any] = {"entries": entries}
    if random.random() < 0.7:
        policy["policyType"] = pick(random, ("Custom", "Custom", "Default"), ("x", "", "custom"), 0.06)
    return policy


def _entry(random: Random) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": pick(random, RESOURCES, ODD_RESOURCES, 0.06),
        "actions": [pick(random, ACTIONS, ODD_ACTIONS, 0.03) for _ in range(random.choice((1, 1, 2, 3)))],
        "decision": pick(random, ("Allow", "Allow", "Deny"), ("allow", "Perhaps", ""), 0.06),
    }
    if random.random() < 0.25:
        entry["sourceIps"] = [pick(random, ADDRESSES[:-1], ODD_ADDRESSES, 0.1) for _ in range(random.choice((1, 2)))]
    for key in list(entry):
        if random.random() < 0.03:
            del entry[key]
    return entry


def guarded(random: Random) -> Step:
    """Ask for something that rules may allow."""
    topic, group = choices.topic(random, 0.1), choices.group(random, 0.1)
    fields: dict[int, dict[str, str]] = {
        14: {"consumerGroup": group, "topic": topic, "queueId": "0"},
        29: {"topic": topic, "queueId": "0", "timestamp": "0"},
        30: {"topic": topic, "queueId": "0"},
        31: {"topic": topic, "queueId": "0"},
        202: {"topic": topic},
        203: {"consumerGroup": group},
        208: {"consumerGroup": group, "topic": topic},
        300: {"topic": topic},
        303: {"group": group, "topic": topic},
        343: {"group": group},
        345: {"group": group, "topic": topic},
        351: {"topic": topic},
        352: {"group": random.choice(choices.GROUPS)},
        38: {"consumerGroup": group},
        204: {"producerGroup": "\u00a7p"},
        328: {},
        215: {"topic": "\u00a7new"},
        207: {"groupName": "\u00a7late"},
    }
    code = random.choice(tuple(fields))
    return signed(random, Step(code, choices.some(random, fields[code])), 0.8)
