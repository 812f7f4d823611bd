from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import FrameError
from orbitmq.ha.frames import HEADER, REPORT, ReportDecoder, format_header

OFFSETS = st.integers(0, 2**63 - 1)


@given(st.lists(OFFSETS, min_size=1), st.data())
def test_reports_survive_any_slicing(offsets: list[int], data: st.DataObject) -> None:
    sent = b"".join(map(REPORT.pack, offsets))
    decoder, seen, at = ReportDecoder(), [], 0
    while at < len(sent):
        step = data.draw(st.integers(1, 20))
        seen.append(decoder.feed(sent[at : at + step]))
        at += step
    found = [offset for offset in seen if offset is not None]
    assert found[-1] == offsets[-1]
    rest = iter(offsets)
    assert all(offset in rest for offset in found), "in order, none invented"


def test_of_a_read_only_the_last_report_counts() -> None:
    assert ReportDecoder().feed(REPORT.pack(7) + REPORT.pack(9) + b"\0\0\0") == 9


def test_a_report_below_0_ends_the_connection() -> None:
    with pytest.raises(FrameError, match="-1"):
        ReportDecoder().feed(b"\xff" * 8)


@given(OFFSETS, st.integers(0, 2**31 - 1))
def test_a_header_is_offset_and_size(offset: int, size: int) -> None:
    header = format_header(offset, size)
    assert len(header) == 12
    assert HEADER.unpack(header) == (offset, size)
