"""A failure that comes again and again is said once."""

from __future__ import annotations

import logging

import pytest

from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure


def test_a_failure_is_said_when_it_is_another_one_or_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    failure = RepeatedFailure(logging.getLogger("orbitmq.test"), "sweeping failed, it is tried again")
    told = []
    for error in (OSError("full"), OSError("full"), OSError("gone"), None, OSError("gone"), OSError("gone")):
        failure.note(error)
        told.append((failure.text, len(caplog.records)))
    assert told == [
        ("OSError: full", 1),
        ("OSError: full", 1),
        ("OSError: gone", 2),
        (None, 2),
        ("OSError: gone", 3),
        ("OSError: gone", 3),
    ]
    first = caplog.records[0]
    assert (first.levelname, first.message) == ("ERROR", "sweeping failed, it is tried again")
    assert first.exc_info is not None
