"""A broker's settings, told apart by what can be done with them."""

from __future__ import annotations

from orbitmq.admin.brokers.settings import MAY_CHANGE, WITHOUT_EFFECT, Setting, list_settings
from orbitmq.broker.settings.shown import CHANGEABLE_MARK, MARK


def test_the_marks_are_those_that_our_broker_shows() -> None:
    assert (WITHOUT_EFFECT, MAY_CHANGE) == (MARK, CHANGEABLE_MARK)


def test_settings_are_marked_and_sorted() -> None:
    shown = {
        "traceOn": "true",
        "slaveTimeout": "3",
        "listenPort": "1",
        MARK: "slaveTimeout,x",
        CHANGEABLE_MARK: "traceOn",
    }
    assert list_settings(shown) == [
        Setting("listenPort", "1", has_effect=True, may_change=False),
        Setting("slaveTimeout", "3", has_effect=False, may_change=False),
        Setting("traceOn", "true", has_effect=True, may_change=True),
    ]


def test_what_a_broker_does_not_say_is_not_known() -> None:
    assert list_settings({"traceOn": "true"}) == [Setting("traceOn", "true", has_effect=None, may_change=None)]
