"""The numbers in a broker's run-time values, by the names that rocketmq-exporter gives them. Pure.

Source: Java BrokerRuntimeStats, RMQMetricsCollector (apache/rocketmq-exporter).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_SIMPLE = {
    "msgPutTotalTodayNow": "msg_put_total_today_now",
    "msgGetTotalTodayNow": "msg_gettotal_today_now",
    "msgPutTotalTodayMorning": "msg_puttotal_todaymorning",
    "msgGetTotalTodayMorning": "msg_gettotal_todaymorning",
    "msgPutTotalYesterdayMorning": "msg_puttotal_yesterdaymorning",
    "msgGetTotalYesterdayMorning": "msg_gettotal_yesterdaymorning",
    "dispatchBehindBytes": "dispatch_behind_bytes",
    "dispatchMaxBuffer": "dispatch_maxbuffer",
    "putMessageSizeTotal": "put_message_size_total",
    "putMessageAverageSize": "put_message_average_size",
    "putMessageTimesTotal": "putmessage_times_total",
    "putMessageEntireTimeMax": "putmessage_entire_time_max",
    "getMessageEntireTimeMax": "getmessage_entire_time_max",
    "putLatency99": "put_latency_99",
    "putLatency999": "put_latency_999",
    "remainTransientStoreBufferNumbs": "remain_transientstore_buffer_numbs",
    "earliestMessageTimeStamp": "earliest_message_timestamp",
    "startAcceptSendRequestTimeStamp": "start_accept_sendrequest_time",
    "pageCacheLockTimeMills": "pagecache_lock_time_mills",
    "commitLogDiskRatio": "commitlog_disk_ratio",
    "consumeQueueDiskRatio": "consumequeue_disk_ratio",
    "commitLogMaxOffset": "commitlog_maxoffset",
    "membersMissing": "members_missing",
    "membersLacking": "members_lacking",
    "commitLogMinOffset": "commitlog_minoffset",
    "sendThreadPoolQueueSize": "send_threadpool_queue_size",
    "sendThreadPoolQueueCapacity": "send_threadpoolqueue_capacity",
    "sendThreadPoolQueueHeadWaitTimeMills": "send_threadpoolqueue_headwait_timemills",
    "pullThreadPoolQueueSize": "pull_threadpoolqueue_size",
    "pullThreadPoolQueueCapacity": "pull_threadpoolqueue_capacity",
    "pullThreadPoolQueueHeadWaitTimeMills": "pull_threadpoolqueue_headwait_timemills",
    "queryThreadPoolQueueSize": "query_threadpoolqueue_size",
    "queryThreadPoolQueueCapacity": "query_threadpool_queue_capacity",
    "queryThreadPoolQueueHeadWaitTimeMills": "query_threadpoolqueue_headwait_timemills",
}
_RATES = {
    "putTps": "put_tps",
    "getTotalTps": "gettotal_tps",
    "getFoundTps": "getfound_tps",
    "getMissTps": "getmiss_tps",
    "getTransferredTps": "gettransfered_tps",
}
_SPANS_S = (10, 60, 600)
_PUT_TIMES = {
    "<=0ms": "0ms",
    "0~10ms": "0to10ms",
    "10~50ms": "10to50ms",
    "50~100ms": "50to100ms",
    "100~200ms": "100to200ms",
    "200~500ms": "200to500ms",
    "500ms~1s": "500to1s",
    "1~2s": "1to2s",
    "2~3s": "2to3s",
    "3~4s": "3to4s",
    "4~5s": "4to5s",
    "5~10s": "5to10s",
    "10s~": "10stomore",
}
_PUT_TIME = re.compile(r"\[?([^\s\[\]:]+)\]?:(\d+)")
_SIZE = re.compile(r"([\d.]+)\s*([KMGTPE]?)(i?)B", re.IGNORECASE)
_PREFIXES = "KMGTPE"

NAMES = (
    *_SIMPLE.values(),
    *(f"{name}{seconds}" for name in _RATES.values() for seconds in _SPANS_S),
    *(f"pmdt_{name}" for name in _PUT_TIMES.values()),
    "commitlogdir_capacity_total",
    "commitlogdir_capacity_free",
    "remain_howmanydata_toflush",
)
"""Every name that `numbers` yields, without `rocketmq_brokeruntime_`."""


def numbers(values: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """Yield the names, without their prefix, and numbers; those that a broker does not measure are left out."""
    unmeasured = set(values.get("notMeasured", "").split(","))
    told = {key: value for key, value in values.items() if key not in unmeasured}
    for key, name in _SIMPLE.items():
        if (number := number_of(told.get(key))) is not None:
            yield name, number
    for key, name in _RATES.items():
        # Brokers before 5.0 have the name with one r.
        text = told.get(key) or told.get(key.replace("rr", "r"), "")
        for seconds, word in zip(_SPANS_S, text.split(), strict=False):
            if (number := number_of(word)) is not None:
                yield f"{name}{seconds}", number
    for times, count in _PUT_TIME.findall(told.get("putMessageDistributeTime", "")):
        if times in _PUT_TIMES:
            yield f"pmdt_{_PUT_TIMES[times]}", float(count)
    sizes = _SIZE.findall(told.get("commitLogDirCapacity", ""))
    for name, size in zip(("commitlogdir_capacity_total", "commitlogdir_capacity_free"), sizes, strict=False):
        yield name, _bytes(*size)
    if found := _SIZE.match(told.get("remainHowManyDataToFlush", "")):
        yield "remain_howmanydata_toflush", _bytes(*found.groups())


def number_of(text: str | None) -> float | None:
    """Return a number; None where a text is none, or is not there."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def first_rate(text: str | None) -> float | None:
    """Return the rate of the last ten seconds: brokers give it with those of a minute and of ten minutes in one text."""
    words = (text or "").split()
    return number_of(words[0]) if words else None


def _bytes(number: str, prefix: str, binary: str) -> float:
    power = _PREFIXES.index(prefix.upper()) + 1 if prefix else 0
    return float(number) * float(1024 if binary else 1000) ** power
