"""The tables that sends work on: the sender's host, and the line of large batches."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from cases import each_case
from orbitmq.broker.sending.large_batches import LargeBatches
from orbitmq.broker.sending.tables import host_of
from orbitmq.errors import Rejected
from orbitmq.model.message import Host


@each_case(("10.0.0.9:5", Host("10.0.0.9", 5)), ("[::1]:65535", Host("::1", 65535)))
def test_a_peer_becomes_a_host(remote: str, host: Host) -> None:
    assert host_of(remote) == host


def test_one_is_next_at_a_time_in_the_order_in_which_they_came() -> None:
    line = LargeBatches(3)
    with ExitStack() as rest:
        with line.entered() as first:
            second, third = rest.enter_context(line.entered()), rest.enter_context(line.entered())
            assert [place.is_next for place in (first, second, third)] == [True, False, False]
        assert [place.is_next for place in (second, third)] == [True, False]


def test_beyond_the_limit_a_batch_is_refused_and_counted_and_taken_when_one_has_left() -> None:
    line = LargeBatches(1)
    with line.entered(), pytest.raises(Rejected, match="largeBatchesMax") as refusal, line.entered():
        raise AssertionError("refused")
    assert (refusal.value.code, line.over_count) == (2, 1)
    with line.entered() as place:
        assert place.is_next
