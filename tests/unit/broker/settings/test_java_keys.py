"""Java's keys without an effect."""

from __future__ import annotations

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.settings.java_keys import WITHOUT_EFFECT


def test_a_key_with_an_effect_is_not_among_them() -> None:
    assert not WITHOUT_EFFECT.keys() & BrokerConfig(broker_name="a").to_properties().keys()


def test_they_have_javas_defaults() -> None:
    assert WITHOUT_EFFECT["haListenPort"] == "10912"
    assert WITHOUT_EFFECT["coldDataFlowControlEnable"] == "false"
    assert len(WITHOUT_EFFECT) > 300
