"""Random commands about the broker as a whole: settings, figures, cleaning, followers, cold data (25, 26, 28, 315, 306, 316, 329, 905, 907, 908, 2001 to 2004). Pure."""

from __future__ import annotations

from random import Random

from compat.admin import choices
from compat.broker.steps import Step
from compat.broker.values import garbage, pick

CHANGES = (
    ("maxMsgsNumBatch", ("64", "32")),
    ("defaultQueryMaxNum", ("32", "16")),
    ("transactionCheckMax", ("15", "7")),
    ("fileReservedTime", ("72", "48")),
    ("deleteWhen", ("04", "05")),
    ("shortPollingTimeMills", ("1000", "900")),
    ("storeReplyMessageEnable", ("true",)),
    ("longPollingEnable", ("true",)),
    ("traceOn", ("true",)),
    ("autoCreateTopicEnable", ("true",)),
)
"""Settings that both take while they run; scenarios see each other's, so the values do no harm."""
REFUSED = (b"brokerConfigPath=/tmp/x\n", b"rocketmqHome=x\n", b"configBlackList=\n", b"# a comment\n", b"\n", b"")
STATS = ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "GROUP_GET_SIZE", "BROKER_PUT_NUMS", "BROKER_GET_NUMS")
ODD_STATS = ("", "x", "topic_put_nums", "\u00fc", "TOPIC_PUT_NUM")


def configure(random: Random) -> Step:
    """Change settings, or ask for them."""
    if random.random() < 0.4:
        return Step(26)
    if random.random() < 0.25:
        return Step(25, {}, random.choice(REFUSED))
    changes = random.sample(CHANGES, random.choice((1, 1, 2, 3)))
    return Step(25, {}, "".join(f"{key}={random.choice(values)}\n" for key, values in changes).encode())


def ask(random: Random) -> Step:
    """Ask for figures."""
    code = random.choice((28, 315, 315, 907, 61, 26))
    if code == 315:
        name = pick(random, STATS, ODD_STATS, 0.15)
        keys = {"BROKER": ("DefaultCluster",), "TOPIC_": tuple(choices.TOPICS), "GROUP_": ("\u00a7a@\u00a7g",)}.get(
            name[:6].rstrip("_") if name.startswith("BROKER") else name[:6], ("x",)
        )
        return Step(
            315,
            choices.some(
                random, {"statsName": name, "statsKey": pick(random, keys, ("", "x", "\u00fc", "\u00a7a"), 0.2)}
            ),
        )
    return Step(code)


def clean(random: Random) -> Step:
    """Ask for cleaning, and for what only slaves and cold data have."""
    code = random.choice((306, 316, 329, 905, 908, 2002, 2003, 2004, 2004))
    if code == 2004:
        return Step(
            code,
            {}
            if random.random() < 0.1
            else {"READ_AHEAD_MODE": pick(random, ("0",), ("2", "-1", "x", "", " 0", "99999999999"), 0.5)},
        )
    if code == 905:
        return Step(code, {"minBrokerId": choices.number(random, ("0", "1"), 0), "minBrokerAddr": "10.0.0.1:10911"})
    if code == 908:
        return Step(
            code, {} if random.random() < 0.3 else {"masterFlushOffset": choices.number(random, ("0", "5"), 0.2)}
        )
    if code == 2002:
        return Step(code, {}, random.choice((b"", b"nobody", garbage(random))))
    return Step(code)


def nonsense(random: Random) -> Step:
    """Ask for what no broker knows."""
    return Step(
        random.choice((9999, 0, -1, 32767, 2, 105, 103, 39, 40, 220, 221, 901, 3000, 3011, 19, 24, 44, 47)),
        {"topic": "\u00a7a", "group": "\u00a7g"},
    )
