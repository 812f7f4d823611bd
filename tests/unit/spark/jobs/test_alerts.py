"""The job's check of its notices; tests/spark/jobs/test_alerts.py runs it."""

from __future__ import annotations

from orbitmq.spark.jobs.alerts import AlertPlan, Watcher, check_notices
from orbitmq.spark.jobs.incidents import BEGUN, OVER, Notice, open_incidents
from orbitmq.spark.jobs.runtime.cluster import Cluster
from orbitmq.spark.jobs.runtime.screen import Screen

NOTICE = Notice(BEGUN, "r", "s", "", 1, 1)


def check(notices, opened):
    watcher = Watcher(None, Cluster("n:1"), AlertPlan("t", 1, 1), Screen())
    watcher.opened = None if opened is None else open_incidents(opened)
    return [result.holds for result in check_notices(notices, watcher)]


def test_notices_that_begin_and_end_in_turn_are_right():
    over = NOTICE._replace(state=OVER, at_ms=2)
    assert check([NOTICE], [NOTICE]) == check([NOTICE, over], []) == check([], []) == [True, True]


def test_an_incident_that_was_told_twice_and_one_that_is_not_known_are_told():
    assert check([NOTICE, NOTICE._replace(at_ms=2)], [NOTICE]) == [False, True]
    assert check([NOTICE], []) == check([NOTICE], None) == [True, False]
