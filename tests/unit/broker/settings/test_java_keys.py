"""Java's keys without an effect, and the settings as administrators are shown them."""

from __future__ import annotations

from pathlib import Path

import javaproperties

from golden import golden
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.settings.changes import (
    CHANGEABLE,
    CHANGEABLE_MARK,
    MARK,
    NEXT_START_MARK,
    RunTimeSettings,
    format_settings,
    shown_settings,
)
from orbitmq.broker.settings.file import WITHOUT_EFFECT

CONFIG = BrokerConfig(broker_name="a", store_path_root_dir=Path("/s"))
SETTINGS = RunTimeSettings(lambda: CONFIG, lambda new, then: None)


def test_they_have_javas_defaults() -> None:
    assert WITHOUT_EFFECT["haMaxTimeSlaveNotCatchup"] == "15000"
    assert WITHOUT_EFFECT["coldDataFlowControlEnable"] == "false"
    assert len(WITHOUT_EFFECT) >= 300


def test_every_key_that_a_java_broker_shows_is_shown() -> None:
    java = javaproperties.loads(golden("26-get-broker-config-answer").body.decode())
    assert java.keys() - shown_settings(SETTINGS).keys() == set()


def test_keys_without_an_effect_are_marked_and_no_others() -> None:
    shown = shown_settings(SETTINGS)
    marked = set(shown[MARK].split(","))
    assert "sendMessageThreadPoolNums" in marked
    assert not marked & CONFIG.to_properties().keys()
    assert shown.keys() - marked == CONFIG.to_properties().keys() | {
        "storePathCommitLog",
        MARK,
        CHANGEABLE_MARK,
        NEXT_START_MARK,
    }
    assert shown["storePathCommitLog"] == "/s/commitlog"


def test_keys_that_may_change_are_marked_and_have_an_effect() -> None:
    shown = shown_settings(SETTINGS)
    assert set(shown[CHANGEABLE_MARK].split(",")) == CHANGEABLE
    assert not CHANGEABLE & set(shown[MARK].split(","))


def test_the_text_is_what_javas_tools_read() -> None:
    config = BrokerConfig(broker_name="a", store_path_root_dir=Path("/s\\t"))
    settings = RunTimeSettings(lambda: config, lambda new, then: None)
    assert javaproperties.loads(format_settings(settings).decode()) == shown_settings(settings)
