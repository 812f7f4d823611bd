"""Random arguments of administrative commands: mostly names and numbers of the scenario, at times unreasonable ones. Pure."""

from __future__ import annotations

from random import Random

from compat.broker.values import HUGE, NUMBERS, TEXTS, pick

TOPICS = {"\u00a7a": 4, "\u00a7b": 1, "\u00a7c": 2}
"""A scenario's own topics, with their queues."""
GROUPS = ("\u00a7g", "\u00a7h")
CLIENTS = ("\u00a7client-0", "\u00a7client-1")
NEW_TOPICS = ("\u00a7new", "\u00a7other")
NEW_GROUPS = ("\u00a7late",)
WRITTEN_TOPICS = (
    "TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer",
    "DefaultCluster_REPLY_TOPIC", "rmq_sys_REVIVE_LOG_DefaultCluster",
)  # fmt: skip
"""Where other scenarios leave something: their offsets say nothing."""
SYSTEM_TOPICS = (
    "SELF_TEST_TOPIC", "RMQ_SYS_TRACE_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT",
    "DefaultCluster", "broker-a", "rmq_sys_SYNC_BROKER_MEMBER_broker-a",
)  # fmt: skip
ODD_TOPICS = (
    *NEW_TOPICS, *SYSTEM_TOPICS, "%RETRY%\u00a7g", "%DLQ%\u00a7g", "%RETRY%\u00a7g_\u00a7a", "no such", "\u00a7nobody", "", " ", "a b",
    "\u00a7\u00fc", "\u7ebf", "\u00a7" + "x" * 117, "\u00a7" + "x" * 118, "\u00a7" + "x" * 250, "../../etc", "\u00a7;b", "\u00a7a@b", "*",
)  # fmt: skip
TOPICS_TO_CHANGE = ODD_TOPICS + WRITTEN_TOPICS
ODD_GROUPS = (
    *NEW_GROUPS, "\u00a7nobody", "", " ", "a b", "TOOLS_CONSUMER", "CID_RMQ_SYS_x", "CID_ONS-HTTP-PROXY", "DEFAULT_CONSUMER",
    "\u00a7\u00fc", "\u00a7" + "x" * 246, "\u00a7" + "x" * 250, "%RETRY%\u00a7g", "\u00a7a@b", "*",
)  # fmt: skip


def topic(random: Random, chance: float = 0.15) -> str:
    """Return mostly one of the scenario's topics."""
    return pick(random, tuple(TOPICS), ODD_TOPICS, chance)


def group(random: Random, chance: float = 0.15) -> str:
    """Return mostly one of the scenario's groups."""
    return pick(random, GROUPS, ODD_GROUPS, chance)


def queue(random: Random, name: str) -> str:
    """Return mostly a queue that a topic has."""
    usual = [str(number) for number in range(TOPICS.get(name, 1))]
    return pick(random, usual, ("-1", "1", "4", "8", "900", "2147483647", "-2147483648"), 0.1)


def client(random: Random) -> str:
    """Return mostly the id of one of the scenario's clients."""
    return pick(random, CLIENTS, ("\u00a7nobody", "", " ", "\u00fc"), 0.15)


def number(random: Random, usual: tuple[str, ...], chance: float = 0.1) -> str:
    """Return mostly one of the usual numbers."""
    return pick(random, usual, NUMBERS + HUGE, chance)


def text(random: Random, usual: tuple[str, ...], chance: float = 0.1) -> str:
    """Return mostly one of the usual texts."""
    return pick(random, usual, TEXTS, chance)


def truth(random: Random, chance: float = 0.1) -> str:
    """Return mostly true or false."""
    return pick(random, ("true", "false"), ("", "TRUE", "1", "0", "yes", " true", "x"), chance)


def some(random: Random, fields: dict[str, str], chance: float = 0.04) -> dict[str, str]:
    """Leave out a field at times."""
    return {name: value for name, value in fields.items() if random.random() >= chance}


def odd_json(random: Random) -> object:
    """Return a value of an unexpected kind."""
    return random.choice(
        (None, "", "x", "7", "true", "false", " 5 ", 0, -1, 1.5, 2**31, 2**63, 2**70, True, False, [], [1], {}, {"a": 1}, "\u00fc", 1e300)
    )  # fmt: skip
