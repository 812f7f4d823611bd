"""Claims about the figures that every server has, and about alerts; the NameServer's and the broker's tests ask for each by its name."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.monitoring.alerts import Alert, AlertLog
from orbitmq.monitoring.families import Families
from orbitmq.monitoring.server_metrics import ServerMetrics
from orbitmq.net.counters import Counters
from orbitmq.process.stats import ProcessStats


def test_codes_have_names_where_they_are_known() -> None:
    counters = Counters(oversized_requests=5)
    counters.requests[310] = 1
    counters.requests[4711] = 2
    counters.refusals[310, 14] = 3
    counters.refusals[4711, 4712] = 4
    server: Any = SimpleNamespace(counters=counters, connections=[1], partial_frames_size=6, waiting_answers_size=7)
    figures = ServerMetrics(Families("p", {"node": "a"}), server, ProcessStats())
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for source in (figures.requests(), figures.connections(), figures.process([Alert("Hot", "")]))
        for family in source
        for sample in family.samples
    }
    assert found["p_requests_total", "a", "310", "SEND_MESSAGE_V2"] == 1
    assert found["p_requests_total", "a", "4711", "4711"] == 2
    assert found["p_refusals_total", "a", "310", "14", "SERVICE_NOT_AVAILABLE"] == 3
    assert found["p_refusals_total", "a", "4711", "4712", "4712"] == 4
    assert found["p_oversized_requests_total", "a"] == 5
    assert found["p_active_connections", "a"] == 1
    assert (found["p_partial_frames_bytes", "a"], found["p_waiting_answers_bytes", "a"]) == (6, 7)
    assert found["p_alert", "a", "Hot"] == 1


def test_an_alert_is_a_line_when_it_begins_and_one_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "some.server")
    alerts = AlertLog(logging.getLogger("some.server"))
    for holding in ([], [Alert("Hot", "90 degrees")], [Alert("Hot", "95 degrees")], []):
        alerts.update(holding)
    assert [(line.levelname, line.getMessage(), vars(line)["alert"]) for line in caplog.records] == [
        ("WARNING", "alert Hot: 90 degrees", "Hot"),
        ("INFO", "alert Hot is over", "Hot"),
    ]


def test_what_holds_now_is_told_with_its_last_reason() -> None:
    alerts = AlertLog(logging.getLogger("some.server"))
    assert alerts.alerts == ()
    alerts.update(iter([Alert("Hot", "90 degrees")]))
    alerts.update([Alert("Hot", "95 degrees"), Alert("Wet", "rain")])
    assert [alert.document() for alert in alerts.alerts] == [
        {"rule": "Hot", "reason": "95 degrees"},
        {"rule": "Wet", "reason": "rain"},
    ]
