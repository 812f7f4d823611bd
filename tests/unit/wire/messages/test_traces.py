"""Claims about traces: Java's bytes are read and written, and nothing that is written to the topic does harm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.wire.messages import traces

ID, REQUEST, OFFSET_ID = (
    "FD00000000000000000000000000000210A64E0E2F2A707E43C10000",
    "FD0002",
    "7F000001000094B1" + "0" * 16,
)
# As Java 5.3.3's clients wrote them; ids and names shortened.
JAVAS: list[tuple[str, traces.Trace]] = [
    (
        f"Pub\x011795378523074\x01DefaultRegion\x01p\x01orders\x01{ID}\x01t\x01k1 k2\x01127.0.0.1:38065\x015\x01183\x010"
        f"\x01{OFFSET_ID}\x01true\x02",
        traces.Published(
            1795378523074, "DefaultRegion", "p", "orders", ID, "t", "k1 k2", "127.0.0.1:38065", 5, 183,
            traces.MessageKind.NORMAL, OFFSET_ID, is_success=True,
        ),
    ),
    (
        f"Pub\x011795378523381\x01DefaultRegion\x01d\x01orders\x01{ID}\x01null\x01null\x01127.0.0.1:38065\x014\x0136\x011"
        f"\x01{OFFSET_ID}\x01true\x02",
        traces.Published(
            1795378523381, "DefaultRegion", "d", "orders", ID, None, None, "127.0.0.1:38065", 4, 36,
            traces.MessageKind.HALF, OFFSET_ID, is_success=True,
        ),
    ),
    (
        f"SubBefore\x011795378525345\x01DefaultRegion\x01c\x01{REQUEST}\x01{ID}\x010\x01k1 k2\x02",
        traces.ConsumptionBegun(1795378525345, "DefaultRegion", "c", REQUEST, ID, 0, "k1 k2"),
    ),
    (
        f"SubAfter\x01{REQUEST}\x01{ID}\x0156\x01true\x01null\x010\x011795378525402\x01c\x02",
        traces.ConsumptionEnded(REQUEST, ID, 56, True, None, traces.ConsumeReturnType.SUCCESS, 1795378525402, "c"),
    ),
    (
        f"EndTransaction\x011795378523434\x01DefaultRegion\x01d\x01orders\x01{ID}\x01null\x01null\x01127.0.0.1:38065\x012"
        f"\x01{ID}\x01COMMIT_MESSAGE\x01false\x02",
        traces.TransactionEnded(
            1795378523434, "DefaultRegion", "d", "orders", ID, None, None, "127.0.0.1:38065", traces.MessageKind.COMMIT, ID,
            "COMMIT_MESSAGE", is_asked=False,
        ),
    ),
    # By Java TraceDataEncoder: its clients tell of recalls only with a system property.
    (
        f"Recall\x011795378523434\x01DefaultRegion\x01p\x01orders\x01{ID}\x01false\x02",
        traces.Recalled(1795378523434, "DefaultRegion", "p", "orders", ID, is_success=False),
    ),
]  # fmt: skip


@each_case(*JAVAS)
def test_a_trace_of_javas_is_read_and_written_again_byte_for_byte(text: str, trace: traces.Trace) -> None:
    assert traces.decode_traces(text.encode()) == [trace]
    assert traces.encode_trace(trace) == text


def test_a_body_holds_many() -> None:
    assert traces.decode_traces("".join(text for text, _ in JAVAS).encode()) == [trace for _, trace in JAVAS]
    assert traces.decode_traces(b"") == []


@each_case(("true", "", True), ("OFF\x01false", "OFF", False), ("OFF\x01true\x0110.0.0.1@7", "OFF", True))
def test_older_clients_tell_of_a_send_in_their_own_ways(rest: str, offset_id: str, is_success: bool) -> None:
    (found,) = traces.decode_traces(
        f"Pub\x011\x01r\x01g\x01t\x01ID\x01null\x01null\x01b\x011\x012\x010\x01{rest}\x02".encode()
    )
    assert isinstance(found, traces.Published)
    assert (found.offset_message_id, found.is_success) == (offset_id, is_success)


@each_case(("true\x01null", 0), ("false\x01null", 4), ("true\x01null\x011", 1), ("false\x01null\x012", 2))
def test_older_clients_tell_less_of_a_consumptions_end(rest: str, outcome: int) -> None:
    (found,) = traces.decode_traces(f"SubAfter\x01R\x01ID\x015\x01{rest}\x02".encode())
    assert isinstance(found, traces.ConsumptionEnded)
    assert (found.outcome, found.at_ms, found.group) == (outcome, 0, "")


@each_case(
    "Pub", "Pub\x011", "Other\x011\x012", "Pub\x01x" + "\x01y" * 12, "SubAfter\x01R\x01I\x01" + "9" * 30 + "\x01true\x01k",
    "Pub\x011\x01r\x01g\x01t\x01ID\x01null\x01null\x01b\x011\x012\x0177\x01OFF\x01true",
    "Pub\x011\x01r\x01g\x01t\x01ID\x01null\x01null\x01b\x011\x012\x010", "Recall\x011",
)  # fmt: skip
def test_what_is_no_trace_is_left_out_and_its_neighbours_are_read(line: str) -> None:
    text, trace = JAVAS[0]
    assert traces.decode_traces(f"{text}{line}\x02{text}".encode()) == [trace, trace]


@given(st.binary(max_size=200))
def test_any_bytes_are_read(body: bytes) -> None:
    assert isinstance(traces.decode_traces(b"Pub\x01" + body), list)
