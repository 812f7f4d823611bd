"""Claims about connections, over real loopback sockets."""

from __future__ import annotations

import asyncio
import logging
import struct

import pytest

from orbitmq.errors import RequestTimeout
from orbitmq.net.dispatch.reply import Reply
from orbitmq.net.limits import Limits
from orbitmq.wire.command import FLAG_RESPONSE, Command, encode_command
from orbitmq.wire.headers import NotifyConsumerIdsChanged
from waiting import until

from ..support import oneway_frame, peer_of, request_frame, serving


async def test_all_answers_of_one_read_leave_in_one_write():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(b"".join(request_frame(f"t{number}", number) for number in range(20)))
        answers = [await peer.receive() for _ in range(20)]

        (connection,) = server.connections
        assert [(answer.opaque, answer.body) for answer in answers] == [(n, b"t%d" % n) for n in range(20)]
        assert connection._writes == connection._reads


async def test_a_frame_may_arrive_byte_by_byte():
    async with serving() as server, peer_of(server) as peer:
        for byte in request_frame("sliced", body=b"x" * 10):
            await peer.send(bytes([byte]))
        assert (await peer.receive()).body == b"sliced" + b"x" * 10


async def test_a_binary_request_gets_a_binary_answer():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(request_frame("binary", 9, serialize_type=1))
        answer = await peer.receive()
        assert (answer.serialize_type, answer.opaque, answer.body) == (1, 9, b"binary")


async def test_a_oneway_request_is_served_and_not_answered():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(oneway_frame("quiet") + request_frame("loud", 5))
        assert (await peer.receive()).opaque == 5
        assert server.service.seen == ["quiet", "loud"]


async def test_a_late_answer_arrives_and_others_do_not_wait_for_it():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(encode_command(Command(106, 1)) + request_frame("t", 2))
        assert (await peer.receive()).opaque == 2
        server.service.parked[0].answer(_reply(b"late"))
        late = await peer.receive()
        assert (late.opaque, late.body) == (1, b"late")


def _reply(body: bytes) -> Reply:
    return Reply(body=body)


async def test_late_answers_of_one_turn_leave_in_one_write():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(b"".join(encode_command(Command(106, number)) for number in range(5)))
        await until(lambda: len(server.service.parked) == 5)
        (connection,) = server.connections
        for call in server.service.parked:
            call.answer(_reply(b""))
        assert [(await peer.receive()).opaque for _ in range(5)] == [0, 1, 2, 3, 4]
        assert connection._writes == 1


async def test_a_late_answer_to_a_peer_that_left_does_nothing():
    async with serving() as server:
        async with peer_of(server) as peer:
            await peer.send(encode_command(Command(106, 1)))
            await server.service.arrived.wait()
        await until(lambda: not server.connections)
        server.service.parked[0].answer(_reply(b"late"))


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


async def test_a_foreign_protocol_is_known_from_its_first_bytes_even_when_sliced():
    async with serving() as server, peer_of(server) as peer:
        for byte in b"GET / HTTP/1.1\r\n":
            try:
                await peer.send(bytes([byte]))
            except ConnectionError:
                break
        assert await peer.is_cut_off()
        assert server.counters.closed_by_us["HTTP"] == 1


@pytest.mark.parametrize(
    "lengths",
    [(0, 0), (-1, 0), (2**31 - 1, 0), (3, 0), (16 * 1024 * 1024 + 1, 0), (100, 97), (100, 0x02000000)],
    ids=str,
)
async def test_a_bogus_length_cuts_the_line_3474(lengths: tuple[int, int]):
    async with serving() as server, peer_of(server) as peer:
        await peer.send(request_frame("good", 1) + struct.pack(">iI", *lengths) + b"x" * 16)
        assert await peer.is_cut_off()
        assert server.counters.closed_by_us["bad frame"] == 1


async def test_what_was_answered_before_garbage_still_arrives():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(request_frame("good", 1))
        assert (await peer.receive()).body == b"good"
        await peer.send(request_frame("again", 2) + b"\xff" * 8)
        assert await peer.is_cut_off()
        assert server.service.seen == ["good"]


async def test_a_header_that_is_none_cuts_the_line():
    async with serving() as server, peer_of(server) as peer:
        await peer.send(struct.pack(">II", 4 + 2, 2) + b"[]")
        assert await peer.is_cut_off()


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not():
    async with serving(Limits(idle_ms=80)) as server, peer_of(server) as idle, peer_of(server) as busy:
        cut_off = asyncio.ensure_future(idle.is_cut_off())
        while not cut_off.done():
            await busy.send(request_frame("t"))
            await busy.receive()
        assert server.counters.closed_by_us["idle"] == 1
        assert len(server.connections) == 1


async def test_a_frame_that_never_gets_whole_ends_the_connection():
    async with serving(Limits(frame_ms=80)) as server, peer_of(server) as peer:
        await peer.send(request_frame("t")[:-1])
        assert await peer.is_cut_off()
        assert server.counters.closed_by_us["frame deadline"] == 1


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


async def test_nothing_more_is_read_from_a_peer_that_does_not_read():
    limits = Limits(write_pause_size=64 * 1024, write_stall_ms=0)
    async with serving(limits) as server, peer_of(server) as peer:
        peer.writer.write(encode_command(Command(224, 1, ext_fields={"cluster": str(8 * 1024 * 1024)})) * 2)
        await until(lambda: len(server.connections) == 1)
        (connection,) = server.connections
        await until(lambda: connection._flow.is_paused)
        assert len((await peer.receive()).body) == 8 * 1024 * 1024
        assert len((await peer.receive()).body) == 8 * 1024 * 1024
        await until(lambda: not connection._flow.is_paused)
        await peer.send(request_frame("t", 9))
        assert (await peer.receive()).opaque == 9


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


async def test_garbage_behind_a_held_pipeline_cuts_the_line_all_the_same():
    async with serving(Limits(write_pause_size=64 * 1024)) as server, peer_of(server) as peer:
        large = encode_command(Command(224, 1, ext_fields={"cluster": str(4 * 1024 * 1024)}))
        bad_header = struct.pack(">II", 4 + 2, 2) + b"[]"
        await peer.send(large * 4 + bad_header)
        assert await peer.is_cut_off()
        assert server.counters.closed_by_us["bad frame"] == 1


async def test_a_peer_that_asks_too_often_is_read_more_slowly():
    async with serving(Limits(requests_per_second_max=100)) as server, peer_of(server) as peer:
        began = asyncio.get_running_loop().time()
        for _ in range(3):
            await peer.send(b"".join(request_frame("t", n) for n in range(50)))
            for _ in range(50):
                await peer.receive()
        await peer.send(request_frame("t", 999))
        assert (await peer.receive()).opaque == 999
        assert server.counters.throttled >= 1
        assert asyncio.get_running_loop().time() - began >= 0.4  # a rate is a time: 151 requests, 100 of them at once


async def test_a_throttled_peer_may_leave():
    async with serving(Limits(requests_per_second_max=1)) as server:
        async with peer_of(server) as peer:
            await peer.send(request_frame("t", 1) * 3)
            for _ in range(3):
                await peer.receive()
        server.close_connection(1)
        await until(lambda: not server.connections)


async def test_a_peer_that_never_reads_is_cut_off():
    limits = Limits(write_pause_size=64 * 1024, write_stall_ms=80)
    async with serving(limits) as server, peer_of(server) as peer:
        await peer.send(encode_command(Command(224, 1, ext_fields={"cluster": str(12 * 1024 * 1024)})))
        await until(lambda: server.counters.closed_by_us["write stall"] == 1, pause_s=0.005)


async def test_late_answers_to_a_peer_that_does_not_read_stop_at_the_cap():
    limits = Limits(write_pause_size=64 * 1024, write_buffer_max=4 * 1024 * 1024, write_stall_ms=0)
    async with serving(limits) as server, peer_of(server) as peer:
        await peer.send(b"".join(encode_command(Command(106, number)) for number in range(40)))
        await until(lambda: len(server.service.parked) == 40)
        for call in server.service.parked:
            call.answer(_reply(bytes(1024 * 1024)))
            await asyncio.sleep(0)
        assert server.counters.closed_by_us["write buffer"] == 1


async def test_what_peers_can_cause_at_will_does_not_fill_the_log(caplog):
    with caplog.at_level(logging.WARNING):
        async with serving() as server:
            for _ in range(40):
                async with peer_of(server) as peer:
                    await peer.send(b"\xff" * 8)
                    assert await peer.is_cut_off()
            assert server.counters.closed_by_us["bad frame"] == 40
    assert len(caplog.records) == 10 + 2


async def test_one_read_in_sixteen_is_timed():
    async with serving() as server, peer_of(server) as peer:
        for number in range(33):
            await peer.send(request_frame("t", number))
            await peer.receive()
        assert server.counters.service_s.count == 2
        assert 0 < server.counters.service_s.total < 60


async def test_an_answer_that_nobody_waits_for_is_counted_and_does_no_harm():
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


async def test_a_server_counts_the_bytes_that_it_reads_and_writes():
    async with serving() as server, peer_of(server) as peer:
        ask = request_frame("t", 1)
        await peer.send(ask)
        answer = await peer.receive()
        assert server.counters.bytes_received == len(ask)
        assert server.counters.bytes_sent == len(encode_command(answer._replace(language="PYTHON")))


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
