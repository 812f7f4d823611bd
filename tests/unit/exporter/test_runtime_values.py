"""Numbers out of run-time values."""

from __future__ import annotations

from cases import each_case
from orbitmq.exporter.runtime_values import NAMES, first_rate, number_of, numbers

JAVA = {
    "putTps": "1.5 2.5 3.5",
    "getTransferredTps": "4.0 5.0",
    "commitLogMaxOffset": "4096",
    "putMessageDistributeTime": "[<=0ms]:7 [0~10ms]:5 [500ms~1s]:1 [10s~]:2 [new bound]:9",
    "commitLogDirCapacity": "Total : 2.0 TiB, Free : 512.0 GiB.",
    "remainHowManyDataToFlush": "1.5 KiB",
    "earliestMessageTimeStamp": "-1",
    "brokerVersionDesc": "V5_3_3",
}


def test_rates_times_sizes_and_plain_numbers_are_found() -> None:
    assert dict(numbers(JAVA)) == {
        "put_tps10": 1.5,
        "put_tps60": 2.5,
        "put_tps600": 3.5,
        "gettransfered_tps10": 4,
        "gettransfered_tps60": 5,
        "commitlog_maxoffset": 4096,
        "pmdt_0ms": 7,
        "pmdt_0to10ms": 5,
        "pmdt_500to1s": 1,
        "pmdt_10stomore": 2,
        "commitlogdir_capacity_total": 2 * 1024**4,
        "commitlogdir_capacity_free": 512 * 1024**3,
        "remain_howmanydata_toflush": 1536,
        "earliest_message_timestamp": -1,
    }


def test_values_that_a_broker_does_not_measure_are_left_out() -> None:
    told = {"putLatency99": "0.00", "putTps": "1", "notMeasured": "putLatency99,getMessageEntireTimeMax"}
    assert dict(numbers(told)) == {"put_tps10": 1}


def test_brokers_before_5_0_tell_transfers_under_a_name_of_their_own() -> None:
    assert dict(numbers({"getTransferedTps": "1 2 3"}))["gettransfered_tps600"] == 3


@each_case({}, {"putTps": "", "commitLogDirCapacity": "unknown", "commitLogMaxOffset": "none"})
def test_text_that_is_no_number_is_left_out(told: dict[str, str]) -> None:
    assert dict(numbers(told)) == {}


def test_every_name_is_announced_once() -> None:
    assert {name for name, _ in numbers(JAVA)} <= set(NAMES)
    assert len(NAMES) == len(set(NAMES))


@each_case(("0 B", 0), ("12 B", 12), ("1.0 kB", 1000), ("3.0 MiB", 3 * 1024**2))
def test_sizes_have_units_of_both_kinds(text: str, size: float) -> None:
    assert dict(numbers({"remainHowManyDataToFlush": text})) == {"remain_howmanydata_toflush": size}


def test_the_first_rate_is_that_of_ten_seconds() -> None:
    assert first_rate("1.5 2.5 3.5") == 1.5
    assert first_rate("") is first_rate(None) is number_of("x") is None
