import pytest

from orbitmq.client import queue_reader
from orbitmq.client.queue_reader import Pulled, QueueReader
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed, RemoteRefused
from orbitmq.wire.command import Command


async def test_a_read_is_repeated_while_a_broker_restarts(monkeypatch):
    asked = []

    async def request(_address, header):
        asked.append(header)
        if len(asked) % 20:
            raise ConnectionFailed("refused")
        return Command(code=0, ext_fields={"offset": str(len(asked))})

    monkeypatch.setattr(queue_reader, "_PAUSE_S", 0)
    assert await QueueReader(request).bounds("a", "orders", 0) == (20, 40)
    monkeypatch.setattr(queue_reader, "RETRY_S", 0)
    with pytest.raises(ConnectionFailed):
        await QueueReader(request).bounds("a", "orders", 0)
    assert len(asked) == 41


async def test_an_answer_without_messages_says_where_the_queue_goes_on_and_a_refusal_is_raised():
    codes = [ResponseCode.PULL_OFFSET_MOVED, ResponseCode.NO_PERMISSION]
    fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "7", "minOffset": "7", "maxOffset": "9"}

    async def request(_address, _header):
        return Command(code=codes.pop(0), ext_fields=fields, body=b"x")

    reader = QueueReader(request)
    assert await reader.pull("a", "orders", 0, 3) == Pulled(b"", 7)
    with pytest.raises(RemoteRefused):
        await reader.pull("a", "orders", 0, 3)
