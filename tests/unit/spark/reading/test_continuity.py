"""Whatever is missing of a range is data loss, as the query wants it: an error, or a warning."""

from __future__ import annotations

import numpy as np
import pytest

from cases import each_case
from orbitmq.model.route import MessageQueue
from orbitmq.spark.reading.continuity import Continuity, DataLoss
from orbitmq.spark.reading.planning import Range

RANGE = Range(MessageQueue("orders", "broker-a", 3), 10, 20)


def check(*parts, fails=True):
    continuity = Continuity(RANGE, fails=fails)
    for part in parts:
        continuity.check(np.array(list(part), np.int64))
    continuity.finish()


def test_a_range_without_gaps_is_whole():
    check(range(10, 20))
    check(range(10, 12), [], range(12, 20))


@each_case(
    ([range(11, 20)], "10 to 10"),
    ([range(10, 14), range(16, 20)], "14 to 15"),
    ([[10, 11, 14, 15, 16, 17, 18, 19]], "12 to 13"),
    ([range(10, 19)], "19 to 19"),
    ([], "10 to 19"),
)
def test_a_gap_anywhere_is_an_error_that_names_it(parts, lost):
    with pytest.raises(DataLoss, match=f"offsets {lost} of queue 3 of topic orders on broker-a are gone"):
        check(*parts)


def test_gaps_may_be_left_behind_each_with_a_warning(caplog):
    check([11, 13], range(15, 19), fails=False)

    assert [record.getMessage().split(" of ")[0] for record in caplog.records] == [
        "offsets 10 to 10",
        "offsets 12 to 12",
        "offsets 14 to 14",
        "offsets 19 to 19",
    ]


def test_loss_that_the_broker_tells_is_reported_the_same_way():
    with pytest.raises(DataLoss, match=r"offsets 12 to 14 .* failOnDataLoss to false"):
        Continuity(RANGE, fails=True).lose(12, 15)
