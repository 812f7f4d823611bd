"""Claims about alerts that begin and end."""

from __future__ import annotations

import logging

import pytest

from orbitmq.monitoring.alerts import Alert, AlertLog


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
