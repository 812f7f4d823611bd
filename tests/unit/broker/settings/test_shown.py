"""The settings as administrators are shown them."""

from __future__ import annotations

from pathlib import Path

import javaproperties

from golden import golden
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.settings.shown import MARK, format_settings, shown_settings

CONFIG = BrokerConfig(broker_name="a", store_path_root_dir=Path("/s"))


def test_every_key_that_a_java_broker_shows_is_shown() -> None:
    java = javaproperties.loads(golden("26-get-broker-config-answer").body.decode())
    assert java.keys() - shown_settings(CONFIG).keys() == set()


def test_keys_without_an_effect_are_marked_and_no_others() -> None:
    shown = shown_settings(CONFIG)
    marked = set(shown[MARK].split(","))
    assert "sendMessageThreadPoolNums" in marked
    assert not marked & CONFIG.to_properties().keys()
    assert shown.keys() - marked == CONFIG.to_properties().keys() | {"storePathCommitLog", MARK}
    assert shown["storePathCommitLog"] == "/s/commitlog"


def test_the_text_is_what_javas_tools_read() -> None:
    config = BrokerConfig(broker_name="a", store_path_root_dir=Path("/s\\t"))
    assert javaproperties.loads(format_settings(config).decode()) == shown_settings(config)
