"""Brokers as rows: what is read of their run-time values."""

from __future__ import annotations

from cases import each_case
from orbitmq.admin.brokers import bytes_behind, metrics_of, replication_of


def test_the_rate_of_the_last_seconds_is_the_first_of_javas_three() -> None:
    assert metrics_of({"putTps": "1.5 2.5 3.5", "getTransferedTps": "4 5 6"})["in_per_s"] == 1.5
    assert metrics_of({"getTransferedTps": "4 5 6"})["out_per_s"] == 4.0
    assert metrics_of({"getTransferredTps": "7 5 6"})["out_per_s"] == 7.0


def test_messages_of_today_are_counted_from_the_morning() -> None:
    told = {"msgPutTotalTodayNow": "50", "msgPutTotalTodayMorning": "20"}
    assert metrics_of(told)["messages_today"] == 30


@each_case("", "x", "-1")
def test_a_value_that_cannot_be_read_is_none(text: str) -> None:
    told = dict.fromkeys(("putTps", "msgPutTotalTodayNow", "earliestMessageTimeStamp"), text)
    found = metrics_of(told)
    assert (found["messages_today"], found["earliest_ms"]) == (None, None)
    assert found["in_per_s"] in (None, -1.0)


def test_a_slave_lacks_the_bytes_up_to_its_masters_end() -> None:
    assert bytes_behind("100", "40") == 60
    assert bytes_behind("40", "100") == 0
    assert bytes_behind(None, "40") is bytes_behind("100", None) is bytes_behind("x", "1") is None


def test_the_master_names_who_is_in_the_sync_set() -> None:
    master = {"commitLogMaxOffset": "100", "syncStateSet": "0 2"}
    assert replication_of(2, {"commitLogMaxOffset": "90"}, master) == {"role": "slave", "behind": 10, "in_sync": True}
    assert replication_of(3, {}, master) == {"role": "slave", "behind": None, "in_sync": False}
    assert replication_of(0, master, master) == {"role": "master", "behind": None, "in_sync": True}
    assert replication_of(1, {}, {}) == {"role": "slave", "behind": None, "in_sync": None}
