"""`orbitmq alerts`; tests/e2e/test_alerts.py has incidents."""

from __future__ import annotations

import pytest

from orbitmq.monitoring.incident_watch import IncidentWatch


def test_a_watch_ends_after_its_looks_with_what_is_open(orbitmq, topic):
    shown = orbitmq("alerts", topic, "--every", "0.1", "--looks", 2)
    assert shown.code == 0
    assert "Z  watching: 0 incidents are open" in shown.err
    assert shown.err.splitlines()[-1] == "0 incidents are open"


def test_a_watch_whose_last_notices_no_broker_took_ends_with_an_error(orbitmq, topic, monkeypatch):
    async def look(watch):
        watch.opened, watch.looks = None, watch.looks + 1

    monkeypatch.setattr(IncidentWatch, "look", look)
    assert orbitmq("alerts", topic, "--every", "0.1", "--looks", 1).code == 1


def test_a_watch_looks_every_ten_seconds_until_it_is_ended(orbitmq, topic, monkeypatch):
    asked = []

    async def run(watch, every_s, looks):
        asked.append((every_s, looks))
        await watch.look()
        raise KeyboardInterrupt

    monkeypatch.setattr(IncidentWatch, "run", run)
    shown = orbitmq("alerts", topic)
    assert (shown.code, asked) == (0, [(10.0, 0)])
    assert "0 incidents are open" in shown.err


def test_a_ctrl_c_before_the_first_look_is_one(orbitmq, topic, monkeypatch):
    async def run(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(IncidentWatch, "run", run)
    assert orbitmq("alerts", topic).code == 130


@pytest.mark.parametrize("words", [("--every", 0), ("--looks", -1)])
def test_a_watch_that_cannot_be_is_refused(orbitmq, words):
    assert orbitmq("alerts", "t", *words).code == 2


def test_a_topic_that_is_not_there_is_a_wrong_argument(orbitmq):
    refused = orbitmq("alerts", "no-such-topic", "--looks", 1)
    assert (refused.code, "orbitmq topic create no-such-topic" in refused.err) == (2, True)


def test_an_interval_that_is_no_number_is_refused(orbitmq, topic):
    refused = orbitmq("alerts", topic, "--every", "nan")
    assert (refused.code, "nan is not a number" in refused.err) == (2, True)
