"""Claims about flow control: when a peer is read, what is held back, and how long a rate limit lets it pause."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from cases import each_case
from orbitmq.net.connection.flow_control import FlowControl, RateLimit
from orbitmq.net.counters import Counters
from orbitmq.net.limits import Limits
from orbitmq.net.time_slices import TURN_COUNT
from orbitmq.wire.frame import Frame

from .fakes import FakeLoop, FakeTransport

LIMITS = Limits(write_pause_size=100, requests_per_second_max=10)
FRAMES = [Frame(0, b"{}", b"%d" % number) for number in range(3)]


class Side:
    """Flow control between a fake loop and a fake transport."""

    def __init__(self, *, is_listener: bool = True, limits: Limits = LIMITS) -> None:
        self.transport, self.loop, self.counters = FakeTransport(), FakeLoop(), Counters()
        self.flow = FlowControl(
            cast(asyncio.Transport, self.transport),
            cast(asyncio.AbstractEventLoop, self.loop),
            limits=limits,
            counters=self.counters,
            is_listener=is_listener,
        )


@each_case(True, False)
def test_a_server_stops_reading_from_who_does_not_read_and_a_client_goes_on(is_listener: bool):
    side = Side(is_listener=is_listener)
    side.flow.is_paused = True
    side.flow.choose_reading()
    assert side.transport.is_reading == (not is_listener)
    side.flow.is_paused = False
    side.flow.choose_reading()
    assert side.transport.is_reading


def test_a_transport_that_closes_is_left_alone():
    side = Side()
    side.transport.close()
    side.flow.is_paused = True
    side.flow.choose_reading()
    assert side.transport.is_reading


def test_frames_are_held_back_in_order_and_nothing_more_is_read_behind_them():
    side = Side()
    assert not side.flow.is_holding_back
    side.flow.hold(FRAMES[:1])
    held_since = side.flow.held_since
    assert side.flow.is_holding_back
    assert side.transport.is_reading
    side.loop.now += 1
    side.flow.hold(FRAMES[1:])
    assert not side.transport.is_reading
    assert side.flow.held_since == held_since == side.loop.now - 1

    assert side.flow.take_held() == FRAMES
    assert not side.flow.held
    assert not side.flow.is_holding_back


def test_two_connections_hold_back_frames_of_their_own():
    one, two = Side(), Side()
    one.flow.hold(FRAMES)
    assert two.flow.held == []


def test_pending_bytes_of_a_client_have_no_limit():
    assert Side().flow.pending_size_max == LIMITS.write_pause_size
    assert Side(is_listener=False).flow.pending_size_max > 2**60


def test_a_client_serves_all_that_it_is_asked_in_one_turn():
    assert Side().flow.turn_count == TURN_COUNT
    assert Side(is_listener=False).flow.turn_count > 2**60


def test_who_asks_too_often_is_not_read_for_as_long_as_its_debt_takes():
    side = Side()
    side.flow.throttle(10)
    assert side.transport.is_reading
    side.flow.throttle(5)
    side.flow.throttle(5)
    assert not side.transport.is_reading
    assert side.counters.throttled == 1
    assert [timer.when for timer in side.loop.waiting] == [pytest.approx(50.5)]
    side.loop.fire()
    assert side.transport.is_reading


def test_the_end_of_a_pause_does_not_read_from_who_does_not_read():
    side = Side()
    side.flow.throttle(20)
    side.flow.is_paused = True
    side.loop.fire()
    assert not side.transport.is_reading


def test_without_a_rate_no_peer_is_throttled():
    assert Side(limits=Limits()).flow.rate_limit is None


def test_a_rate_allows_a_burst_of_a_second_and_then_its_rate():
    limit = RateLimit(10)
    assert limit.spend(10, now=100.0) == 0
    assert limit.spend(5, now=100.0) == pytest.approx(0.5)
    assert limit.spend(0, now=100.5) == 0
    assert limit.spend(1, now=100.5) == pytest.approx(0.1)
    assert limit.spend(10, now=200.0) == 0


def test_the_burst_is_there_from_the_clocks_first_second_on():
    assert RateLimit(10).spend(10, now=0.0) == 0
