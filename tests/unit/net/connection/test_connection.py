"""Claims about connections: over real loopback sockets, then between a loop and a transport that do what the test says."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterator

import pytest

from cases import each_case
from orbitmq.errors import ConnectionFailed, RequestTimeout
from orbitmq.net.connection.connection import Connection
from orbitmq.net.dispatch.reply import Reply
from orbitmq.net.limits import Limits
from orbitmq.net.time_slices import TURN_COUNT
from orbitmq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, encode_command
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers import GetClusterInfo, NotifyConsumerIdsChanged
from orbitmq.wire.signature import Credentials, is_signed_by
from waiting import until

from ..support import peer_of, request_frame, serving
from .fakes import FakeTransport, Side


@pytest.fixture
def side() -> Side:
    return Side()


def test_all_answers_of_one_read_leave_in_one_write(side: Side):
    # No socket: the kernel may cut what was sent together into several reads.
    side.connection.data_received(b"".join(request_frame(f"t{number}", number) for number in range(20)))
    assert [(answer.opaque, answer.body) for answer in side.written] == [(n, b"t%d" % n) for n in range(20)]
    assert len(side.transport.writes) == 1


@pytest.mark.real
async def test_a_late_answer_arrives_and_others_do_not_wait_for_it():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(encode_command(Command(106, 1)) + request_frame("t", 2))
        assert (await peer.receive()).opaque == 2
        server.service.held[0].answer(_reply(b"late"))
        late = await peer.receive()
        assert (late.opaque, late.body) == (1, b"late")


def _reply(body: bytes) -> Reply:
    return Reply(body=body)


@pytest.mark.real
@pytest.mark.parametrize(
    ("first_bytes", "kind"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00", "RDP"),
    ],
)
async def test_another_protocol_is_named_once_and_counted_always(first_bytes: bytes, kind: str, caplog):
    with caplog.at_level(logging.WARNING):
        async with serving() as server:
            for _ in range(2):
                async with peer_of(server) as peer:
                    await peer.send(first_bytes)
                    assert await peer.is_cut_off()
            assert server.counters.closed_by_us[kind] == 2
    assert [kind in record.message for record in caplog.records] == [True]


@pytest.mark.real
async def test_a_foreign_protocol_is_known_from_its_first_bytes_even_when_sliced():
    async with serving() as server, peer_of(server) as peer:
        for byte in b"GET / HTTP/1.1\r\n":
            try:
                await peer.send(bytes([byte]))
            except ConnectionError:
                break
        assert await peer.is_cut_off()
        assert server.counters.closed_by_us["HTTP"] == 1


@pytest.mark.real
async def test_an_idle_connection_is_closed_and_a_busy_one_is_not():
    async with serving(Limits(idle_ms=80)) as server, peer_of(server) as idle, peer_of(server) as busy:
        cut_off = asyncio.ensure_future(idle.is_cut_off())
        while not cut_off.done():
            await busy.send(request_frame("t"))
            await busy.receive()
        assert (server.counters.closed_by_us["idle"], len(server.connections)) == (1, 1)


@pytest.mark.real
async def test_slow_bytes_do_not_extend_the_frame_deadline():
    async with serving(Limits(frame_ms=80, idle_ms=0)) as server, peer_of(server) as peer:
        frame = request_frame("t" * 100_000)
        cut_off = asyncio.ensure_future(peer.is_cut_off())
        place = 0
        while not cut_off.done():
            try:
                await peer.send(frame[place : place + 1])
            except ConnectionError:
                break
            place += 1
            await asyncio.sleep(0.001)
        await cut_off
        assert server.counters.closed_by_us["frame deadline"] == 1


@pytest.mark.real
async def test_a_pipeline_of_large_answers_is_served_as_the_peer_reads_it():
    size, count = 2 * 1024 * 1024, 60
    async with serving(Limits(write_pause_size=64 * 1024)) as server, peer_of(server) as peer:
        ask = b"".join(encode_command(Command(224, n, ext_fields={"cluster": str(size)})) for n in range(count))
        await peer.send(ask + request_frame("last", 99))
        await until(lambda: len(server.connections) == 1)
        (connection,) = server.connections
        most = 0
        for number in range(count):
            answer = await peer.receive()
            assert (answer.opaque, len(answer.body)) == (number, size)
            most = max(most, connection._transport.get_write_buffer_size())
        assert (await peer.receive()).body == b"last"
        assert most < 2 * size
        await peer.send(request_frame("more", 100))
        assert (await peer.receive()).opaque == 100


@pytest.mark.real
async def test_garbage_behind_a_held_pipeline_cuts_the_line_all_the_same():
    async with serving(Limits(write_pause_size=64 * 1024)) as server, peer_of(server) as peer:
        large = encode_command(Command(224, 1, ext_fields={"cluster": str(4 * 1024 * 1024)}))
        bad_header = struct.pack(">II", 4 + 2, 2) + b"[]"
        await peer.send(large * 4 + bad_header)
        assert await peer.is_cut_off()
        assert server.counters.closed_by_us["bad frame"] == 1


@pytest.mark.real
async def test_a_throttled_peer_may_leave():
    async with serving(Limits(requests_per_second_max=1)) as server:
        async with peer_of(server) as peer:
            await peer.send(request_frame("t", 1) * 3)
            for _ in range(3):
                await peer.receive()
        server.close_connection(1)
        await until(lambda: not server.connections)


@pytest.mark.real
async def test_what_peers_can_cause_at_will_does_not_fill_the_log(caplog):
    with caplog.at_level(logging.WARNING):
        async with serving() as server:
            for _ in range(40):
                async with peer_of(server) as peer:
                    await peer.send(b"\xff" * 8)
                    assert await peer.is_cut_off()
            assert server.counters.closed_by_us["bad frame"] == 40
    assert len(caplog.records) == 10 + 2


@pytest.mark.real
async def test_one_read_in_sixteen_is_timed():
    async with serving() as server, peer_of(server) as peer:
        for number in range(33):
            await peer.send(request_frame("t", number))
            await peer.receive()
        assert server.counters.service_s.count == 2
        assert 0 < server.counters.service_s.total < 60


@pytest.mark.real
async def test_an_answer_without_a_waiter_is_counted_and_does_no_harm():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(encode_command(Command(0, 7, FLAG_RESPONSE)) + request_frame("t", 1))
        assert (await peer.receive()).opaque == 1
        assert server.counters.unmatched_answers == 1

        (connection,) = server.connections
        asked = asyncio.ensure_future(connection.request(NotifyConsumerIdsChanged(consumer_group="g"), timeout_ms=5000))
        question = await peer.receive()
        await peer.send(encode_command(Command(0, question.opaque, FLAG_RESPONSE, body=b"yes")))
        assert (await asked).body == b"yes"
        assert server.counters.unmatched_answers == 1


@pytest.mark.real
async def test_a_request_that_is_not_answered_in_time_fails_and_the_next_one_does_not():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(request_frame("t", 1))
        await peer.receive()
        (connection,) = server.connections
        with pytest.raises(RequestTimeout, match="did not answer request 40 in time"):
            await connection.request(NotifyConsumerIdsChanged(consumer_group="g"), timeout_ms=20)
        late = await peer.receive()
        asked = asyncio.ensure_future(connection.request(NotifyConsumerIdsChanged(consumer_group="h"), timeout_ms=5000))
        question = await peer.receive()
        answers = [
            Command(0, command.opaque, FLAG_RESPONSE, body=b"%d" % n) for n, command in enumerate((late, question))
        ]
        await peer.send(b"".join(map(encode_command, answers)))
        assert (await asked).body == b"1"
        assert server.counters.unmatched_answers == 1


@pytest.mark.real
async def test_what_a_layer_below_reads_keeps_a_connection_from_being_idle():
    async with serving(Limits(idle_ms=3_600_000)) as server, peer_of(server) as peer:
        await peer.send(request_frame("t"))
        await peer.receive()
        (connection,) = server.connections
        connection.tick(0)
        for _ in range(4):
            connection.note_activity()
            connection.tick(2_400_000)
        assert not connection.is_closed
        connection.tick(2_400_000)
        connection.tick(2_400_000)
        assert connection.is_closed
        assert server.counters.closed_by_us["idle"] == 1


@pytest.mark.real
async def test_the_limit_per_address_counts_each_address_by_itself():
    async with serving(Limits(connections_per_address_max=1)) as server:
        port = int(server.address.rpartition(":")[2])
        writers = []
        for address in ("127.0.0.1", "127.0.0.2"):
            _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            writers.append(writer)
        await until(lambda: len(server.connections) == 2)
        assert server.counters.connections_refused == 0
        for writer in writers:
            writer.close()
            await writer.wait_closed()


def held_frame(opaque: int, *, flag: int = 0) -> bytes:
    """Return a request that is answered later."""
    return encode_command(Command(106, opaque, flag))


def large_frame(opaque: int, size: int) -> bytes:
    """Return a request whose answer has a body of this size."""
    return encode_command(Command(224, opaque, ext_fields={"cluster": str(size)}))


def test_what_a_turn_of_the_loop_says_costs_one_call_and_one_write(side: Side):
    for turn in (1, 2):
        for number in range(3):
            side.connection.send_oneway(NotifyConsumerIdsChanged(consumer_group=f"g{number}"))
        assert (len(side.loop.soon), len(side.transport.writes)) == (1, turn - 1)
        side.loop.turn()
        assert len(side.transport.writes) == turn
    assert [(command.code, command.is_oneway) for command in side.written] == [(40, True)] * 6


def test_what_a_read_says_is_written_before_the_turn_is_over(side: Side):
    side.connection.data_received(request_frame("one", 1) + request_frame("two", 2))
    assert [answer.body for answer in side.written] == [b"one", b"two"]
    assert (side.loop.soon, len(side.transport.writes)) == ([], 1)
    assert (side.counters.bytes_sent, side.connection._writes) == (len(side.transport.writes[0]), 1)


def test_what_is_asked_is_signed():
    side = Side(is_listener=False, credentials=Credentials("me", "my secret"))
    side.ask()
    side.connection.send_oneway(GetClusterInfo())
    side.loop.turn()
    assert [is_signed_by(command.ext_fields or {}, command.body, "my secret") for command in side.written] == [True] * 2


def test_a_closed_connection_says_nothing_more_and_tells_who_asks(side: Side):
    side.connection.data_received(held_frame(1))
    side.connection.close()
    side.ask()
    side.connection.send_oneway(GetClusterInfo())
    side.service.held[0].answer(_reply(b"late"))
    side.connection.answer_held([b"held"])
    side.connection.data_received(request_frame("late"))
    side.loop.turn()
    assert [str(error) for error in side.told] == ["the connection to 10.0.0.1:5 is closed"]
    assert isinstance(side.told[0], ConnectionFailed)
    assert (side.transport.writes, side.service.seen, side.counters.bytes_received) == ([], [], len(held_frame(1)))


def test_closing_writes_what_waits_and_closes_once(side: Side):
    side.connection.send_oneway(GetClusterInfo())
    side.connection.close()
    assert len(side.written) == 1
    side.connection.close()
    assert side.connection.is_closed
    assert side.transport.calls == ["close"]


def test_ending_immediately_is_counted_once_and_ends_who_is_closing_too(side: Side):
    side.connection.abort("idle")
    side.connection.abort("idle")
    assert (dict(side.counters.closed_by_us), side.transport.calls) == ({"idle": 1}, ["abort"])
    side = Side()
    side.connection.close()
    side.connection.abort("idle")
    side.connection.kill()
    assert (dict(side.counters.closed_by_us), side.transport.calls) == ({}, ["close", "abort"])


def test_a_connection_is_told_from_which_size_on_its_peer_counts_as_slow():
    side = Side(limits=Limits(write_pause_size=123))
    assert side.transport.write_pause_size == 123
    assert (side.connection.remote, side.connection.now_ms()) == ("10.0.0.1:5", 7)


def test_a_refused_connection_ends_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        side = Side(limits=Limits(connections_max=1))
        refused = type(side.connection)(side.endpoint, side.connection._loop)
        transport = FakeTransport()
        refused.connection_made(transport)  # type: ignore[arg-type]
    assert caplog.messages == ["test: refused a connection from 10.0.0.1:5: 1 connections are open"]
    assert (transport.calls, refused.is_closed, transport.write_pause_size) == (["abort"], True, None)
    assert side.counters.connections_refused == 1


def test_a_request_has_its_time_by_the_loops_clock_and_equal_ones_share_a_timer(side: Side):
    for _ in range(3):
        side.ask(timeout_ms=100)
    assert [timer.when for timer in side.loop.timers] == [50.1]
    side.ask(timeout_ms=99)
    assert [timer.when for timer in side.loop.waiting] == [50.099]


@each_case(True, False)
def test_only_a_client_takes_a_peer_for_dead_that_says_nothing(is_listener: bool):
    side = Side(is_listener=is_listener)
    side.ask()
    side.loop.fire()
    assert [str(error) for error in side.told] == ["10.0.0.1:5 did not answer request 40 in time"]
    assert isinstance(side.told[0], RequestTimeout)
    assert dict(side.counters.closed_by_us) == ({} if is_listener else {"silent peer": 1})


def test_a_peer_counts_as_dead_when_it_was_silent_since_any_of_the_requests_whose_time_is_over():
    for silent_one_is_first in (True, False):
        side = Side(is_listener=False)
        side.ask(timeout_ms=2000)
        side.connection.data_received(encode_command(Command(0, 77, FLAG_RESPONSE)))
        side.loop.now += 1
        side.ask(timeout_ms=1000 - silent_one_is_first)
        side.loop.fire()
        side.loop.turn()
        assert side.connection.is_closed
    side = Side(is_listener=False)
    side.ask()
    side.connection.note_activity()
    side.loop.fire()
    assert len(side.told) == 1
    assert not side.connection.is_closed


@pytest.mark.parametrize(("error", "why"), [(None, ""), (OSError("boom"), ": boom")])
def test_who_waits_is_told_that_the_connection_broke_and_no_timer_stays(error: Exception | None, why: str, side: Side):
    side.ask()
    side.connection.connection_lost(error)
    assert [str(told) for told in side.told] == [f"the connection to 10.0.0.1:5 broke before the answer came{why}"]
    assert side.loop.waiting == []
    assert side.connection.is_closed
    assert side.endpoint.connections == {}


@pytest.mark.real
async def test_an_answer_to_who_does_not_wait_any_more_does_no_harm():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(request_frame("t", 1))
        await peer.receive()
        (connection,) = server.connections
        asked = asyncio.ensure_future(connection.request(GetClusterInfo(), timeout_ms=5000))
        question = await peer.receive()
        asked.cancel()
        await peer.send(encode_command(Command(0, question.opaque, FLAG_RESPONSE)) + request_frame("t", 2))
        assert (await peer.receive()).opaque == 2
        assert asked.cancelled()


def test_a_late_refusal_is_counted_and_a_late_answer_to_a_one_way_request_is_not_sent(side: Side):
    side.connection.data_received(held_frame(1) + held_frame(2, flag=FLAG_ONEWAY))
    assert side.connection.pending_count == 2
    asked, oneway = side.service.held
    oneway.answer(_reply(b"nobody reads this"))
    assert side.loop.soon == []
    asked.answer(Reply(16, "no"))
    side.loop.turn()
    assert [(answer.opaque, answer.code) for answer in side.written] == [(1, 16)]
    assert (dict(side.counters.refusals), side.connection.pending_count) == ({(106, 16): 1}, 0)


def test_a_peer_that_reads_now_and_then_has_its_whole_time_again():
    side = Side(limits=Limits(write_stall_ms=100, idle_ms=0))
    for _ in range(3):
        side.connection.pause_writing()
        side.connection.tick(60)
        side.connection.resume_writing()
    assert not side.connection.is_closed
    side.connection.pause_writing()
    assert not side.transport.is_reading
    side.connection.tick(60)
    side.connection.tick(60)
    assert not side.connection.is_closed, "it may have begun just before the first look"
    side.connection.tick(60)
    assert dict(side.counters.closed_by_us) == {"write stall": 1}


def test_who_waits_for_an_answer_is_not_idle():
    side = Side(limits=Limits(idle_ms=100))
    side.ask()
    for _ in range(3):
        side.connection.tick(60)
    assert not side.connection.is_closed
    side.connection.data_received(encode_command(Command(0, 0, FLAG_RESPONSE)))
    for _ in range(3):
        side.connection.tick(60)
    assert dict(side.counters.closed_by_us) == {"idle": 1}


def test_writes_keep_a_connection_from_being_idle():
    side = Side(limits=Limits(idle_ms=100))
    for _ in range(5):
        side.connection.send_oneway(GetClusterInfo())
        side.loop.turn()
        side.connection.tick(60)
    assert not side.connection.is_closed


def test_the_time_of_a_frame_stands_still_while_it_is_us_who_do_not_read():
    side = Side(limits=Limits(frame_ms=100, write_stall_ms=0))
    side.connection.data_received(request_frame("t")[:-1])
    side.connection.pause_writing()
    for _ in range(5):
        side.connection.tick(60)
    assert not side.connection.is_closed
    side.connection.resume_writing()
    side.connection.tick(60)
    side.connection.tick(60)
    assert not side.connection.is_closed
    side.connection.tick(60)
    assert dict(side.counters.closed_by_us) == {"frame deadline": 1}


@each_case(
    (True, 501, 500, True), (True, 500, 500, False), (True, 2, 1, True), (True, 501, 0, False), (False, 501, 500, False)
)
def test_what_waits_for_a_slow_peer_has_a_limit(is_paused: bool, unwritten_size: int, size_max: int, is_over: bool):
    side = Side(limits=Limits(write_buffer_max=size_max))
    if is_paused:
        side.connection.pause_writing()
    side.transport.unwritten_size = unwritten_size
    side.connection.send_oneway(GetClusterInfo())
    side.loop.turn()
    assert dict(side.counters.closed_by_us) == ({"write buffer": 1} if is_over else {})


def worked_on(side: Side, steps: list[int], count: int = 20) -> None:
    def work() -> Iterator[None]:
        for number in range(count):
            steps.append(number)
            yield

    side.connection.work_on(work())


def test_requests_behind_one_that_is_worked_on_wait_until_it_is_done_and_nothing_is_read_meanwhile():
    side, steps = Side(), list[int]()
    worked_on(side, steps)
    assert not side.transport.is_reading
    side.connection.data_received(request_frame("behind", 1))
    side.connection.data_received(request_frame("last", 2))
    before = -1
    while len(steps) < 20:
        assert (len(steps) > before, side.written) == (True, [])
        before = len(steps)
        side.loop.turn()
    assert before > 0, "it took several turns"
    while side.loop.soon:
        side.loop.turn()
    assert [answer.opaque for answer in side.written] == [1, 2]
    assert side.transport.is_reading


def test_requests_of_the_same_read_wait_for_one_that_is_worked_on(monkeypatch: pytest.MonkeyPatch):
    side, steps = Side(), list[int]()
    serve = side.connection._endpoint.dispatcher.serve

    def serve_and_work(frame: Frame, command: Command, peer: Connection) -> tuple[bytes, ...]:
        if command.opaque == 1:
            worked_on(side, steps)
        return serve(frame, command, peer)

    monkeypatch.setattr(side.connection._endpoint.dispatcher, "serve", serve_and_work)
    side.connection.data_received(b"".join(request_frame("t", number) for number in range(4)))
    assert [answer.opaque for answer in side.written] == [0, 1]
    while side.loop.soon:
        side.loop.turn()
    assert [answer.opaque for answer in side.written] == [0, 1, 2, 3]
    assert steps == list(range(20))


def test_work_is_done_although_its_client_does_not_read_or_has_left():
    side, steps = Side(), list[int]()
    worked_on(side, steps)
    side.connection.pause_writing()
    side.loop.turn()
    assert 0 < len(steps) < 20
    side.connection.abort("test")
    side.connection.connection_lost(None)
    while side.loop.soon:
        side.loop.turn()
    assert steps == list(range(20))


def test_requests_wait_until_the_peer_has_read_the_answers_before_them():
    side = Side(limits=Limits(write_pause_size=1000))
    side.transport.unwritten_size = 1001
    side.connection.data_received(b"".join(large_frame(number, 2000) for number in range(3)))
    assert [answer.opaque for answer in side.written] == [0]
    side.connection.data_received(request_frame("behind", 3))
    side.connection.pause_writing()
    side.loop.turn()
    assert len(side.written) == 1
    assert not side.transport.is_reading

    side.connection.resume_writing()
    side.loop.turn()
    assert [answer.opaque for answer in side.written] == [0, 1, 2, 3]
    assert side.transport.is_reading


def test_nothing_that_was_held_back_is_served_on_a_closed_connection():
    side = Side(limits=Limits(write_pause_size=1000))
    side.transport.unwritten_size = 1001
    side.connection.data_received(large_frame(1, 2000) + request_frame("late"))
    side.connection.close()
    side.loop.turn()
    assert side.service.seen == []


def test_small_answers_of_a_read_are_pending_together():
    side = Side(limits=Limits(write_pause_size=1000))
    side.transport.unwritten_size = 1001
    for _ in range(2):  # what was written is not pending any more
        side.connection.data_received(large_frame(1, 400))
    assert len(side.written) == 2
    side.connection.data_received(b"".join(large_frame(number, 400) for number in range(4)))
    assert len(side.written) == 4
    side.loop.turn()
    assert len(side.written) == 6


def test_a_read_of_many_requests_is_served_in_turns(side: Side):
    count = 2 * TURN_COUNT + 1
    side.connection.data_received(b"".join(request_frame("t", number) for number in range(count)))
    assert len(side.written) == TURN_COUNT
    side.connection.data_received(request_frame("behind", count))
    side.loop.turn()
    assert [answer.opaque for answer in side.written] == list(range(count + 1))
    assert side.loop.soon == []
    assert side.transport.is_reading


def test_requests_that_take_long_end_a_turn_early(side: Side):
    side.service.seen = Watching(lambda: setattr(side, "now_s", side.now_s + 0.001))  # type: ignore[assignment]
    side.connection.data_received(request_frame("t") * 8)
    assert len(side.written) == 3
    side.loop.turn()
    assert len(side.written) == 8


def test_a_request_knows_how_long_it_has_waited_for_its_turn(side: Side):
    waited: list[int] = []
    side.service.seen = Watching(lambda: waited.append(side.connection.waited_ms))  # type: ignore[assignment]
    side.connection.data_received(request_frame("t") * (TURN_COUNT + 2))
    side.loop.now += 0.25
    side.loop.turn()
    assert waited == [0] * TURN_COUNT + [250, 250]
    side.connection.data_received(request_frame("t"))
    assert waited[-1] == 0


def test_a_connection_has_room_while_its_peer_reads_and_for_large_answers_while_all_do():
    side = Side(limits=Limits(waiting_answers_max=1_000_000))
    assert side.connection.has_room(1 << 30)
    side.endpoint.waiting_answers.note(99, lambda: 600_000, lambda _: None)
    assert side.connection.has_room(64 * 1024)
    assert not side.connection.has_room(64 * 1024 + 1)
    side.connection.pause_writing()
    assert not side.connection.has_room(0)


def test_answers_that_the_kernel_does_not_take_are_counted_until_they_are_read_or_their_connection_is_gone():
    side = Side(limits=Limits(waiting_answers_max=1_000))
    side.transport.unwritten_size = 700
    side.connection.data_received(request_frame("t"))
    assert side.endpoint.waiting_answers.size == 700
    side.connection.connection_lost(None)
    assert side.endpoint.waiting_answers.size == 0


def test_a_peer_that_does_not_read_ends_when_more_waits_than_may():
    side = Side(limits=Limits(waiting_answers_max=1_000))
    side.transport.unwritten_size = 1_001
    side.connection.data_received(request_frame("t"))
    assert dict(side.counters.closed_by_us) == {"waiting answers": 1}


class Watching(list[str]):
    """A list that tells when something is added."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, item: str) -> None:
        self._tell()


def test_late_answers_are_pending_as_well():
    side = Side(limits=Limits(write_pause_size=1000))
    side.transport.unwritten_size = 1001
    side.connection.data_received(held_frame(1))
    side.service.held[0].answer(_reply(bytes(2000)))
    side.connection.data_received(request_frame("one", 2) + request_frame("two", 3))
    assert side.service.seen == ["one"]


class Counting:
    """A fast path that knows the frames of one topic, and was shown all others."""

    def __init__(self) -> None:
        self.known = request_frame("known", 1)
        self.shown: list[bytes] = []

    def answer(self, data: bytes, answers: list[bytes], connection: object) -> int:
        self.shown.append(data)
        size = 0
        while data.startswith(self.known, size):
            answers.append(encode_command(Command(0, 1, FLAG_RESPONSE, body=b"short")))
            size += len(self.known)
        return size

    def learn(self, *_: object) -> None: ...


def test_the_fast_path_is_shown_reads_from_the_start_of_a_frame():
    fast_path = Counting()
    side = Side(fast_path=fast_path, limits=Limits(write_pause_size=1000))  # type: ignore[arg-type]
    side.connection.data_received(fast_path.known * 2)
    half = request_frame("half", 2)
    side.connection.data_received(fast_path.known + half[:9])
    side.connection.data_received(half[9:])
    assert [answer.body for answer in side.written] == [b"short"] * 3 + [b"half"]
    assert fast_path.shown == [fast_path.known * 2, fast_path.known + half[:9], half]

    side.transport.unwritten_size = 1001
    side.connection.data_received(large_frame(3, 2000) + request_frame("held", 4))
    side.connection.data_received(fast_path.known)
    assert len(fast_path.shown) == 4
    side.transport.unwritten_size = 0
    side.loop.turn()
    assert [answer.body for answer in side.written[5:]] == [b"held", b"known"]


def test_a_frame_that_a_read_cuts_off_does_not_keep_the_next_ones_from_the_fast_path():
    fast_path = Counting()
    side = Side(fast_path=fast_path, limits=Limits(partial_frames_max=1_000_000))  # type: ignore[arg-type]
    known = fast_path.known = request_frame("known", 1, body=bytes(15_000))
    side.connection.data_received(known + known[:14_000])
    assert side.endpoint.partial_frames.size == 14_000
    side.connection.data_received(known[14_000:] + known)
    assert [answer.body for answer in side.written] == [b"short"] * 3
    assert (fast_path.shown[1:], side.service.seen) == ([known * 2], [])
    assert side.endpoint.partial_frames.size == 0


def test_the_rest_of_a_first_or_of_a_large_frame_goes_the_slow_path():
    fast_path = Counting()
    side = Side(fast_path=fast_path)  # type: ignore[arg-type]
    known, large = fast_path.known, request_frame("large", 2, body=bytes(20_000))
    side.connection.data_received(known[:20])
    side.connection.data_received(known[20:])
    side.connection.data_received(large[:19_000])
    side.connection.data_received(large[19_000:])
    assert side.service.seen == ["known", "large"]
    assert fast_path.shown == [known[:20], large[:19_000]]


def test_each_request_counts_for_the_rate_whatever_answers_it():
    fast_path = Counting()
    known, other = fast_path.known, request_frame("other", 2)
    for data in (known * 3, other * 3, known + other * 2, known * 2 + other):
        side = Side(fast_path=fast_path, limits=Limits(requests_per_second_max=2))  # type: ignore[arg-type]
        side.connection.data_received(data)
        assert [timer.when for timer in side.loop.waiting] == [pytest.approx(50.5)]
        assert not side.transport.is_reading


def test_bytes_of_another_protocol_behind_a_whole_frame_or_in_tls_are_a_bad_frame(caplog: pytest.LogCaptureFixture):
    foreign = b"GET / HTTP/1.1\r\n"
    after_frame, encrypted, fast = (
        Side(),
        Side(transport=FakeTransport(ssl_object=object())),
        Side(fast_path=Counting()),
    )  # type: ignore[arg-type]
    after_frame.connection.data_received(request_frame("t"))
    fast.connection.data_received(Counting().known)
    for side in (after_frame, encrypted, fast):
        side.connection.data_received(foreign)
        assert dict(side.counters.closed_by_us) == {"bad frame": 1}
        assert side.transport.calls == ["abort"]
    plain = Side()
    plain.connection.data_received(foreign)
    assert dict(plain.counters.closed_by_us) == {"HTTP": 1}
    assert ["disconnected 10.0.0.1:5" in message for message in caplog.messages[:3]] == [True] * 3


def test_an_unfinished_frame_is_given_back_when_it_is_whole_or_its_connection_gone():
    side = Side(limits=Limits(partial_frames_max=1_000_000))
    frame = request_frame("t", body=bytes(100_000))
    for piece in (frame[:50_000], frame[50_000:60_000]):
        side.connection.data_received(piece)
    assert side.endpoint.partial_frames.size == 60_000
    side.connection.data_received(frame[60_000:])
    assert side.endpoint.partial_frames.size == 0
    side.connection.data_received(frame[:50_000])
    side.connection.connection_lost(None)
    assert side.endpoint.partial_frames.size == 0


def test_who_waits_for_the_last_late_answer_is_told_once_it_is_written(side: Side):
    side.connection.data_received(held_frame(1) + held_frame(2))
    side.connection.pending_count += 1  # as a fast path does
    side.service.held[0].answer(_reply(b""))
    assert len(side.loop.soon) == 1, "nobody waits: only the write"
    side.loop.turn()
    side.endpoint.is_awaited = True
    side.service.held[1].answer(_reply(b""))
    assert len(side.loop.soon) == 2
    side.loop.turn()
    side.connection.answer_held([encode_command(Command(0, 3, FLAG_RESPONSE))])
    assert len(side.loop.soon) == 2
    side.loop.turn()
    assert len(side.written) == 3


def test_an_answer_that_a_handler_gives_immediately_needs_no_turn_of_the_loop(side: Side):
    fields = {"clusterName": "c", "brokerAddr": "a", "brokerName": "b"}
    side.connection.data_received(encode_command(Command(904, 3, ext_fields=fields)) + request_frame("t", 4))
    assert [answer.opaque for answer in side.written] == [3, 4]
    assert (side.loop.soon, len(side.transport.writes)) == ([], 1)


def test_what_was_answered_before_a_bad_header_is_written_first(side: Side):
    side.connection.data_received(request_frame("good", 1) + struct.pack(">II", 4 + 2, 2) + b"[]")
    assert [answer.body for answer in side.written] == [b"good"]
    assert (side.transport.calls, dict(side.counters.closed_by_us)) == (["abort"], {"bad frame": 1})


def test_a_peer_may_owe_us_reading_up_to_the_limit():
    measured = Side()
    measured.connection.data_received(large_frame(0, 400))
    size = measured.counters.bytes_sent
    side = Side(limits=Limits(write_pause_size=size))
    for served in (2, 5):  # before the second round, nothing is pending any more
        side.transport.unwritten_size = size + 1
        side.connection.data_received(large_frame(0, 400) * 3)
        assert len(side.written) == served
        side.transport.unwritten_size = 0
        side.loop.turn()
        assert len(side.written) == served + 1
