"""Random values for header fields, properties and bodies: mostly such as clients send, at times such as they do not. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from random import Random
from struct import pack
from typing import Any

from compat.filters import Generator
from orbitmq.wire.messages.batch import encode_batch

NUMBERS = ("-1", "0", "1", "-2147483648", "2147483647", "-9223372036854775808", "9223372036854775807")
HUGE = ("9223372036854775808", "99999999999999999999", "1e3", "0x10", "1.5", "+5", " 7", "7 ", "", "abc", "٣", "null")
TEXTS = ("", " ", "*", "a b", "ümläut", "线", "a\x01b", "%", "x" * 130, "y" * 300, "null", "\x00", "../../etc", "||")
TAGS = ("red", "blue", "green", "r\u00f6d", "Aa", "BB")
"""The last two have the same hash, which is what the broker looks at."""
LEVELS = ("15", "16", "18", "19", "1000", "0", "-1")
"""Delay levels of twenty minutes and more: nothing is delivered while a scenario is told."""
BORN_AT = "1700000000000"


def tag_expression(random: Random) -> str:
    """Return a subscription by tags."""
    tags = random.sample(TAGS, random.randrange(1, 4))
    return random.choice(
        ("*", "", tags[0], " || ".join(tags), "||".join(tags), " " + tags[0] + " ", "none", "|| ||", "|")
    )


def sql_expression(random: Random) -> str:
    """Return a SQL92 expression, or something near one."""
    return random.choice(
        (
            "n > 3", "n IS NOT NULL", "colour = 'red' OR n BETWEEN 1 AND 4", "TAGS IN ('red', 'blue')", "n <> 2 AND n < 9",
            "NOT colour = 'red'", "n >", "", "a b c", "n = 'x'", "colour > 3", "TRUE", "1 = 1",
            "region IN ('eu', 'us') AND n >= 2", "region NOT IN ('eu') OR n IS NULL", "TAGS = 'red'", "colour LIKE 'r%'",
            "n NOT BETWEEN 2 AND 5", "colour CONTAINS 'e'", "colour NOT STARTSWITH 'r'", "n > 2.5 AND (n < 7 OR region = 'eu')",
            Generator(random.getrandbits(32)).expression(),
        )
    )  # fmt: skip


def properties(random: Random, number: int) -> str:
    """Return a message's properties as they travel."""
    pairs: list[tuple[str, str]] = []
    if random.random() < 0.98:
        pairs.append(("UNIQ_KEY", f"7F000001{number:024X}"))
    if random.random() < 0.5:
        pairs.append(("KEYS", random.choice(("k1", "k1 k2", "k-\u00fc", "", "  k3  "))))
    if random.random() < 0.6:
        pairs.append(("TAGS", random.choice(TAGS)))
    if random.random() < 0.4:
        pairs.append(("WAIT", random.choice(("true", "true", "false", "x"))))
    pairs.extend(_odd_property(random) for _ in range(random.choice((0, 0, 0, 1, 1, 2, 4))))
    if random.random() < 0.3:
        random.shuffle(pairs)
    if random.random() < 0.04:
        return random.choice(
            ("\x02", "\x01", "a", "a\x02b\x01c\x02", "a\x01", "a\x01b\x02\x02c\x01d", "a\x01b\x01c\x02")
        )
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    return text[:-1] if text and random.random() < 0.2 else text


def _odd_property(random: Random) -> tuple[str, str]:
    return random.choice(
        (
            ("n", str(random.randrange(10))),
            ("n", str(random.randrange(10))),
            ("region", random.choice(("eu", "us", "EU"))),
            (random.choice(("a", "b", "A", "a1")), random.choice(("5", "-5", "5.0", "true", "1e1", "x"))),
            ("colour", random.choice(TAGS)),
            ("DELAY", random.choice(LEVELS)),
            ("INSTANCE_ID", "instance"),
            ("CLUSTER", "elsewhere"),
            ("__SHARDINGKEY", "s1"),
            ("REAL_TOPIC", "real"),
            ("REAL_QID", "7"),
            ("RETRY_TOPIC", "\u00a7b"),
            ("ORIGIN_MESSAGE_ID", "0" * 32),
            ("MSG_TYPE", "reply"),
            ("TTL", "3000"),
            ("CORRELATION_ID", "c-1"),
            ("REPLY_TO_CLIENT", "nobody"),
            ("BUYER_ID", "b"),
            ("TRANSFER_FLAG", "true"),
            ("CORRECTION_FLAG", "true"),
            ("MQ2_FLAG", "x"),
            ("RECONSUME_TIME", "3"),
            ("MAX_RECONSUME_TIMES", "3"),
            ("CONSUME_START_TIME", "1700000000001"),
            ("MSG_REGION", "there"),
            ("TRACE_ON", "false"),
            ("EXTEND_UNIQ_INFO", "e"),
            ("DUP_INFO", "d"),
            ("__STARTDELIVERTIME", "1"),
            ("TRAN_MSG", "false"),
            ("PGROUP", "\u00a7p"),
            ("\u4f60\u597d", "\u00fc"),
            ("x", "long" * random.choice((1, 50, 2000))),
            ("x", ""),
            ("INNER_BASE", "3"),
            ("INNER_NUM", "2"),
            ("BORN_TIMESTAMP", "x"),
            ("BORN_HOST", "h"),
        )
    )  # fmt: skip


def message_body(random: Random) -> bytes:
    """Return a message's body."""
    size = random.choice((1, 4, 10, 10, 100, 100, 1000, 5000))
    return random.choice((b"x" * size, random.randbytes(size), "\u4f60\u597d".encode() * (size // 4 + 1)))


def compressed(random: Random) -> tuple[int, bytes]:
    """Return a sys flag and a body that it describes, or not."""
    body = zlib.compress(message_body(random))
    return random.choice(((0x1, body), (0x301, body), (0x1, b"no zlib"), (0x101, b"no lz4"), (0x201, b"no zstd")))


def batch_body(random: Random, number: int) -> bytes:
    """Return the body of a batch."""
    items = []
    for place in range(random.choice((1, 2, 3, 3, 8))):
        text = properties(random, number * 100 + place) if random.random() < 0.7 else ""
        items.append((random.choice((0, 0, 5, -1)), message_body(random)[:500], text.encode()))
    body = encode_batch(items)
    chance = random.random()
    if chance < 0.04:
        return body[: random.randrange(len(body))]
    if chance < 0.06:
        return b""
    if chance < 0.08:
        return body + random.choice((b"\x00", b"12345", pack(">i", -5)))
    if chance < 0.10:
        return pack(">i", random.choice((0, -1, 2**31 - 1, 5))) + body[4:]
    return body


def garbage(random: Random) -> bytes:
    """Return a body that is none."""
    return random.choice(
        (b"", b"{", b"{}", b"[]", b"null", b"[1,2]", b'"text"', b"\xff\xfe\xfd", b'{"a":', b"17", b"{\xff}")
    )


def as_json(value: Any) -> bytes:
    """Write a body as Java clients do."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def pick(random: Random, usual: Sequence[str], odd: Sequence[str] = NUMBERS, chance: float = 0.08) -> str:
    """Return mostly one of the usual values."""
    return random.choice(odd if random.random() < chance else usual)
