"""A broker's page: its settings."""

from __future__ import annotations

import pytest

from orbitmq.admin.broker_settings import Setting
from orbitmq.dashboard.brokers import changed_first

from .conftest import Browser


def test_settings_that_differ_from_the_default_come_first_and_unknown_defaults_are_no_change() -> None:
    settings = [Setting(key, value, None, None) for key, value in (("a", "1"), ("b", "2"), ("c", "3"))]
    rows = changed_first(settings, {"a": "1", "c": "4"})
    assert [(row["key"], row["default"], row["is_changed"]) for row in rows] == [
        ("c", "4", True),
        ("a", "1", False),
        ("b", None, None),
    ]


@pytest.mark.real
async def test_a_brokers_page_names_the_defaults_of_its_settings(browser: Browser) -> None:
    settings = (await browser.json("/brokers/broker-a"))["settings"]
    changed = [row["key"] for row in settings if row["is_changed"]]
    assert [row["key"] for row in settings[: len(changed)]] == changed
    assert "namesrvAddr" in changed
    assert "maxMessageSize" not in changed
    assert 'data-rows="settings-rows"' in await browser.html("/brokers/broker-a")
