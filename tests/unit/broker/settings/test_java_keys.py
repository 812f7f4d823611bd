"""Java's keys without an effect."""

from __future__ import annotations

from orbitmq.broker.settings.java_keys import WITHOUT_EFFECT


def test_they_have_javas_defaults() -> None:
    assert WITHOUT_EFFECT["haMaxTimeSlaveNotCatchup"] == "15000"
    assert WITHOUT_EFFECT["coldDataFlowControlEnable"] == "false"
    assert len(WITHOUT_EFFECT) > 300
