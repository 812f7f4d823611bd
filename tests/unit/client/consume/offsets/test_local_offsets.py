import asyncio
import threading

import pytest

from orbitmq.client.consume.offsets.local_offsets import LocalOffsets, decode_offsets, encode_offsets
from orbitmq.errors import HeaderError
from orbitmq.model.route import MessageQueue
from waiting import until

QUEUE = MessageQueue("orders", "broker-a", 1)
OTHER = MessageQueue("orders", "broker-a", 0)


def opened(directory):
    offsets = LocalOffsets(directory, "group")
    offsets.open("client")
    return offsets


def test_the_file_has_the_form_of_javas():
    content = encode_offsets({QUEUE: 7, OTHER: 5})
    assert content == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:5,'
        b'{"brokerName":"broker-a","queueId":1,"topic":"orders"}:7}}'
    )
    assert decode_offsets(content) == {QUEUE: 7, OTHER: 5}
    assert decode_offsets(b'{"offsetTable":null}') == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"offsetTable":{"a":1}}', b'{"offsetTable":[1]}'])
def test_what_is_no_table_of_offsets_is_said(content):
    with pytest.raises(HeaderError):
        decode_offsets(content)


async def test_offsets_survive_in_the_file_of_the_client(tmp_path):
    path = tmp_path / "client" / "group.json"
    offsets = opened(tmp_path)
    assert await offsets.load(QUEUE) is None
    await offsets.store(QUEUE, 7)
    await offsets.store(OTHER, 5)
    again = opened(tmp_path)
    assert (await again.load(QUEUE), await again.load(OTHER)) == (7, 5)
    assert sorted(file.name for file in path.parent.iterdir()) == ["group.json", "group.json.bak"]


async def test_offsets_stored_at_the_same_time_are_written_one_after_the_other(tmp_path, monkeypatch):
    writing, most, written, may_end = 0, 0, [], threading.Event()

    def replace(_path, content):
        nonlocal writing, most
        writing += 1
        most = max(most, writing)
        written.append(decode_offsets(content))
        may_end.wait()
        writing -= 1

    monkeypatch.setattr("orbitmq.client.consume.offsets.local_offsets.replace_file", replace)
    offsets = opened(tmp_path)
    first = [asyncio.create_task(offsets.store(MessageQueue("orders", "broker-a", n), n)) for n in range(5)]
    await until(lambda: written)
    second = [asyncio.create_task(offsets.store(MessageQueue("orders", "broker-a", n), 10 + n)) for n in range(5)]
    for _ in range(100):
        await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(*first, *second)
    assert most == 1
    assert len(written) == 2
    assert set(written[-1].values()) == {10, 11, 12, 13, 14}


@pytest.mark.parametrize("damage", [b"", b'{"offsetTable":{{"brokerNa'])
async def test_a_damaged_file_gives_way_to_the_generation_before(tmp_path, damage, caplog):
    path = tmp_path / "client" / "group.json"
    offsets = opened(tmp_path)
    await offsets.store(QUEUE, 7)
    await offsets.store(QUEUE, 8)
    path.write_bytes(damage)
    assert await opened(tmp_path).load(QUEUE) == 7
    assert "cannot use" in caplog.text
