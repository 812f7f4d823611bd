"""Alerts of a server: rules that hold, with their reasons, and a line in the log when one begins or ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

BROKER_COUNT_DROPPED = "RocketmqNameServerBrokerCountDropped"
"""The rule that several NameServers say of one broker; all other rules are about the server that says so."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule that holds, by the name that Prometheus shows, and the text that says why.

    `subjects` names what the rule holds for, where that is not the server itself. With `is_warning` the server is healthy all the
    same.
    """

    rule: str
    reason: str
    subjects: tuple[str, ...] = ()
    is_warning: bool = False

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        subjects = {"subjects": list(self.subjects)} if self.subjects else {}
        severity = {"severity": "warning"} if self.is_warning else {}
        return {"rule": self.rule, "reason": self.reason, **subjects, **severity}


class AlertLog:
    """The alerts that hold now.

    Args:
        log: gets a line when one begins or ends.
    """

    def __init__(self, log: logging.Logger) -> None:
        self.alerts: tuple[Alert, ...] = ()
        self._log = log

    def update(self, alerts: Iterable[Alert]) -> None:
        """Take note of the alerts that hold from now on."""
        before = {alert.rule for alert in self.alerts}
        self.alerts = tuple(alerts)
        for alert in self.alerts:
            if alert.rule not in before:
                self._log.warning("alert %s: %s", alert.rule, alert.reason, extra=_fields(alert.rule))
        for rule in sorted(before - {alert.rule for alert in self.alerts}):
            self._log.info("alert %s is over", rule, extra=_fields(rule))


def _fields(rule: str) -> dict[str, Any]:
    return {"alert": rule}
