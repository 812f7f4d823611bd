"""The normal form of an answer to an administrator: each rule leaves out what cannot be the same on two brokers."""

from __future__ import annotations

import re
from typing import Any

from compat.broker.answers import REMARK, SPECIAL, Normal, Special, masked
from compat.broker.answers import normalise as normalise_answer
from compat.broker.sides import Memory, Outcome
from compat.broker.steps import PREFIX_MARK, Step
from orbitmq.wire.command import Command


def normalise(step: Step, outcome: Outcome, memory: Memory) -> Normal:
    """Return what has to be equal."""
    normal = normalise_answer(step, outcome, memory, _SPECIAL)
    normal[ASKED] = step.code
    if normal.get(REMARK):
        normal[REMARK] = masked(normal[REMARK], memory)
    if step.code in _SHARED and not _OF_A_STORY.search(memory.fill(step.fields.get(_SHARED[step.code], ""))):
        normal.pop("body", None)  # what other scenarios have left in topics and groups that all of them use
    if step.code in (3005, 3010) and isinstance(normal.get("body"), list):
        own = [each for each in normal["body"] if PREFIX_MARK in str(each.get("username", each.get("subject")))]
        normal["body"] = [_rules(each, memory) for each in own]
    if step.code == 26 and isinstance(outcome, Command) and outcome.code == 0:
        normal["body"] = {}
        normal["settings"] = _settings(outcome.body)
    return normal


ASKED = "asked"
_OF_A_STORY = re.compile(r"q\d{7}-")
_SHARED = {308: "topic", 343: "group", 352: "group"}
LISTS = (18, 225)
"""Java has made what stands before that which it refuses: a refusal of either broker is a difference."""


CUT_AT = 100
"""Ours cuts names that are longer than any can be."""


def take_away(java: Normal, ours: Normal) -> None:
    """Ours may have more settings; it may say more than Java's remark, and anything where Java's is an exception's text."""
    if "settings" in java and "settings" in ours:
        ours["settings"] = {key: value for key, value in ours["settings"].items() if key in java["settings"]}
    asked, _ = java.pop(ASKED, 0), ours.pop(ASKED, 0)
    codes = java.get("code"), ours.get("code")
    theirs, own = java.pop(REMARK, None) or "", ours.pop(REMARK, None) or ""
    java.pop("has a remark", None)
    ours.pop("has a remark", None)
    is_partly_done = asked in LISTS and codes == (1, 1)
    is_said = _is_exception(theirs) or own.startswith(theirs) or (len(own) > CUT_AT and theirs.startswith(own))
    if codes[0] == codes[1] and codes[0] and (is_partly_done or not is_said):
        java["says"], ours["says"] = theirs, own


def _is_exception(remark: str) -> bool:
    """Return True if a remark is what Java's exceptions say: their names, or the messages of those of the JVM."""
    return any(
        words in remark for words in ("Exception", "Error", "Cannot invoke", "begin 0", "begin 1", "out of bounds")
    )


def _settings(body: bytes) -> dict[str, str]:
    """Of settings: every name that Java has, and the values of those that scenarios change."""
    lines = (line.partition("=") for line in body.decode().splitlines() if not line.startswith("#"))
    return {key: value if key in CHANGED else "" for key, _, value in lines}


CHANGED = frozenset(
    [
        "maxMsgsNumBatch",
        "defaultQueryMaxNum",
        "transactionCheckMax",
        "fileReservedTime",
        "deleteWhen",
        "shortPollingTimeMills",
        "storeReplyMessageEnable",
        "longPollingEnable",
        "traceOn",
        "autoCreateTopicEnable",
    ]
)


def _consume_stats(value: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Of the progress of all groups (317): that of the scenario's own, topics in no order."""
    found = {}
    for groups in value.get("consumeStatsList", ()):
        for group, stats in groups.items():
            if memory.prefix in group:
                found[group] = sorted(stats, key=lambda topic: str(sorted(map(str, topic["offsetTable"]))))
    return found


def _producers(value: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Of all producers (328): the scenario's own, in no order."""
    own = {group: found for group, found in value.get("data", {}).items() if memory.prefix in group}
    return {group: sorted(found, key=lambda producer: str(producer["clientId"])) for group, found in own.items()}


def _progress(value: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Of the progress of a group that all scenarios can use (208): not that in topics of other scenarios."""
    table = {
        queue: offsets for queue, offsets in value.get("offsetTable", {}).items() if not _is_of_another(queue, memory)
    }
    return {**value, "offsetTable": table}


def _is_of_another(named: Any, memory: Memory) -> bool:
    return bool(_OF_A_STORY.search(str(named))) and memory.prefix not in str(named)


def _own_modes(value: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Of all modes of reading (402): those of the scenario's own topics."""
    table = value.get("messageRequestModeMap", {})
    return {topic: modes for topic, modes in table.items() if memory.prefix in topic}


def _time_spans(value: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Of time spans (303): moments by their sign, and delays not at all."""
    for span in value.get("consumeTimeSpanSet", ()):
        for name in ("minTimeStamp", "maxTimeStamp", "consumeTimeStamp"):
            span[name] = (span[name] > 0) - (span[name] < 0)
        for name in ("delayTime", "minTimeStampStr", "maxTimeStampStr", "consumeTimeStampStr"):
            span.pop(name, None)
    return value


def _figures(value: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Of what was counted (315): the names, for when a broker adds up is its own affair."""
    return {period: dict.fromkeys(figures, 0) for period, figures in value.items()}


def _names(value: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Of what a broker says about its run (28), its followers (907), its timers (61) and delays (45): the names."""
    return _emptied(value)


def _emptied(value: Any) -> Any:
    return {key: _emptied(item) for key, item in value.items()} if isinstance(value, dict) else ""


def _rules(value: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Of rules (3009, 3010): an action that is named twice is one."""
    for policy in value.get("policies") or ():
        for entry in policy.get("entries") or ():
            entry["actions"] = list(dict.fromkeys(entry.get("actions") or ()))
    return value


_SPECIAL: dict[int, Special] = {
    **SPECIAL,
    45: _names,
    61: lambda value, memory: {"dataVersion": ""},
    208: _progress,
    303: _time_spans,
    315: _figures,
    317: _consume_stats,
    328: _producers,
    402: _own_modes,
    907: _names,
    3009: _rules,
}
