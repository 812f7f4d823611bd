"""Claims about the traces that wait: they are bounded, and packed so that every message may be sent and found."""

from __future__ import annotations

from orbitmq.client.trace import spool
from orbitmq.client.trace.spool import COUNT_MAX, PACK_COUNT_MAX, TraceSpool
from orbitmq.wire.messages.traces import ConsumptionBegun, Recalled, Trace, decode_traces


def begun(number: int, keys: str | None = None) -> ConsumptionBegun:
    return ConsumptionBegun(number, "r", "g", "R", f"ID{number}", 0, keys)


def test_what_waits_is_packed_in_order_and_found_by_ids_and_keys() -> None:
    waiting = TraceSpool()
    traces: list[Trace] = [
        begun(1, "a b"),
        begun(2),
        Recalled(3, "r", "g", "t", "ID3", is_success=True),
        begun(1, "b c"),
    ]
    assert all(waiting.put(trace) for trace in traces)
    (pack,) = waiting.take()
    assert decode_traces(pack.body.encode()) == traces
    assert pack.keys == ("ID1", "a", "b", "ID2", "ID3", "c")
    assert (len(waiting), list(waiting.take())) == (0, [])


def test_more_than_fits_one_message_is_told_in_several() -> None:
    waiting = TraceSpool()
    for number in range(PACK_COUNT_MAX + 1):
        waiting.put(begun(number))
    assert [len(decode_traces(pack.body.encode())) for pack in waiting.take()] == [PACK_COUNT_MAX, 1]
    for number in range(3):
        waiting.put(begun(number, str(number) + "é" * 4_000))  # 8,001 bytes
    assert [len(pack.keys) for pack in waiting.take()] == [2, 2, 2]
    for number in range(3):
        waiting.put(begun(number)._replace(region="x" * 60_000))
    assert [len(decode_traces(pack.body.encode())) for pack in waiting.take()] == [1, 1, 1]


def test_one_message_with_too_many_keys_is_found_by_those_that_have_room() -> None:
    waiting = TraceSpool()
    waiting.put(begun(1, " ".join(f"{number:099}" for number in range(300))))
    (pack,) = waiting.take()
    assert pack.keys[0] == "ID1"
    assert len(" ".join(pack.keys)) <= 16_000
    assert len(pack.keys) == 160


def test_what_finds_no_room_is_counted_and_room_comes_back(monkeypatch) -> None:
    waiting = TraceSpool()
    assert [waiting.put(begun(number)) for number in range(COUNT_MAX + 2)].count(False) == 2
    assert (waiting.dropped_count, len(waiting)) == (2, COUNT_MAX)
    list(waiting.take())
    monkeypatch.setattr(spool, "SIZE_MAX", 3_000)
    assert [waiting.put(begun(number, "k" * 500)) for number in range(4)] == [True, True, False, False]
    list(waiting.take())
    assert waiting.put(begun(1, "k" * 500))
