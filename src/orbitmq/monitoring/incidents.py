"""Incidents out of what servers say of themselves, and the notices that tell of them. Pure.

An incident is a rule and its subject: a broker that vanished, whichever NameServer says so, or the server that the rule
is about. Subjects are fields of an alert; its reason is for readers. It begins when a server says that the rule holds, and is over when all servers that could say so have answered, and none does: a server that does
not answer ends nothing. What is open is read from the notices themselves, so that a watch that was killed knows it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import Any, NamedTuple

import orjson

from orbitmq.monitoring.alerts import BROKER_COUNT_DROPPED, Alert

BEGUN, OVER = "begun", "over"


class Incident(NamedTuple):
    """A rule, and what it holds for."""

    rule: str
    subject: str


class Notice(NamedTuple):
    """An incident that begins or ends.

    Args:
        state: BEGUN or OVER.
        at_ms: of this notice.
        begun_ms: with rule and subject it names the incident.
    """

    state: str
    rule: str
    subject: str
    reason: str
    at_ms: int
    begun_ms: int

    @property
    def incident(self) -> Incident:
        """Return what it is about."""
        return Incident(self.rule, self.subject)

    @property
    def beginning(self) -> tuple[Incident, int]:
        """Return what both notices of an incident have in common."""
        return self.incident, self.begun_ms

    @property
    def key(self) -> str:
        """Return what both messages of an incident are found by; keys have no blanks, and no control characters."""
        text = f"{self.rule}/{self.subject}/{self.begun_ms}"
        return "".join(letter if letter.isprintable() and letter != " " else "_" for letter in text)


_TEXT_MAX = 1_000
_TYPES = (str, str, str, str, int, int)


class ClusterSample(NamedTuple):
    """One look at a cluster.

    Args:
        answers: the alerts of those that have answered, by address.
        name_servers: those that should answer.
    """

    answers: Mapping[str, Sequence[Alert]]
    name_servers: AbstractSet[str]


def alert_in(document: Mapping[str, Any]) -> Alert:
    """Return the alert of a health document, with texts that a message can hold: any client may answer as a broker."""
    texts = document["rule"], document["reason"], *document.get("subjects", ())
    rule, reason, *subjects = (text[:_TEXT_MAX] for text in texts)
    return Alert(rule, reason, tuple(subjects))


def decode_notice(body: bytes) -> Notice | None:
    """Return the notice of a message; None: it is another message."""
    try:
        notice = Notice(**orjson.loads(body))
    except (orjson.JSONDecodeError, TypeError):
        return None
    return notice if notice.state in (BEGUN, OVER) and tuple(map(type, notice)) == _TYPES else None


def find_incidents(look: ClusterSample) -> dict[Incident, str]:
    """Return what holds now, with a reason."""
    return {
        Incident(alert.rule, subject): alert.reason
        for address, alerts in sorted(look.answers.items())
        for alert in alerts
        for subject in (address in look.name_servers and alert.subjects) or (address,)
    }


def find_notices(opened: Mapping[Incident, Notice], look: ClusterSample, now_ms: int) -> list[Notice]:
    """Return what is to be told after a look.

    Args:
        opened: the incidents that were begun and are not over, with the notices that said so.
    """
    holding = find_incidents(look)
    begun = [Notice(BEGUN, *key, reason, now_ms, now_ms) for key, reason in holding.items() if key not in opened]
    over = [
        Notice(OVER, *key, "no server says so any more", now_ms, notice.begun_ms)
        for key, notice in opened.items()
        if key not in holding and _witnesses(key, look) <= look.answers.keys()
    ]
    return begun + over


def open_incidents(notices: Collection[Notice]) -> dict[Incident, Notice]:
    """Return the incidents that were begun and are not over.

    An end names its beginning: their order is not asked of clocks, which may be set back. A beginning that was told again, since
    its first message was stored and not acknowledged, ends with the first one.
    """
    ends = {notice.beginning: notice.at_ms for notice in notices if notice.state == OVER}
    last: dict[Incident, Notice] = {}
    for notice in sorted(notices, key=lambda notice: (notice.begun_ms, notice.at_ms)):
        if notice.state != BEGUN:
            continue
        before = last.get(notice.incident)
        if before is None or min(ends.get(one.beginning, inf) for one in (before, notice)) <= notice.begun_ms:
            last[notice.incident] = notice
    return {incident: notice for incident, notice in last.items() if notice.beginning not in ends}


def _witnesses(incident: Incident, look: ClusterSample) -> AbstractSet[str]:
    """Return the servers that have to answer before an incident can be over."""
    return look.name_servers if incident.rule == BROKER_COUNT_DROPPED else {incident.subject}
