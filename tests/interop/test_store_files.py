"""Store directories that change hands: what Java 5.3.3 wrote opens here, and the other way round."""

from __future__ import annotations

import shutil

import pytest

from interop.drain import read_all
from interop.peers import JavaBroker, message
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.model.message import Host
from orbitmq.store import Draft, FlushMode, ReadStatus, Store, StoreConfig
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import CRC_PROPERTY_SIZE, format_record, iter_records
from orbitmq.wire.messages.stored_messages import to_stored_message

# Small, so that a few hundred messages cross file boundaries of both kinds.
SEGMENT_SIZE = 64 * 1024
UNITS = 30
SIZES = {"mappedFileSizeCommitLog": SEGMENT_SIZE, "mappedFileSizeConsumeQueue": UNITS * 20}
# Java writes a checksum of the whole record, and refuses records without one when it recovers.
WITH_CRC = {"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"}
TOPIC = "changing-hands"


def open_store(path, *, record_crc=False):
    config = StoreConfig(
        path=path, segment_size=SEGMENT_SIZE, consume_queue_units=UNITS, flush=FlushMode.ASYNC, record_crc=record_crc
    )
    return Store.open(config, store_host=Host("127.0.0.1", 10911))


def stop_like_kill_9(store):
    store._close_files()  # nothing is synced, no checkpoint is written, the abort file stays


def stored(store):
    """Return every message of the topic; offsets must be contiguous in each queue."""
    found = []
    for queue_id in store.queue_ids(TOPIC):
        offset = store.min_offset(TOPIC, queue_id)
        while (read := store.read(TOPIC, queue_id, offset)).status is ReadStatus.FOUND:
            records = list(iter_records(read.body))
            assert [record.queue_offset for record in records] == list(range(offset, read.next_offset))
            found += [to_stored_message(record) for record in records]
            offset = read.next_offset
        assert offset == store.max_offset(TOPIC, queue_id)
    return found


def append(store, first, count):
    for number in range(first, first + count):
        properties = {"TAGS": f"t{number % 3}", "KEYS": f"k{number}", "UNIQ_KEY": f"{number:032X}", "ours": "über"}
        store.append(Draft(TOPIC, number % 4, body(number), format_properties(properties), born_at_ms=number))


def body(number):
    return b"%06d " % number * (1 + number % 60)


def expected(count):
    return sorted(body(number) for number in range(count))


@pytest.fixture
def properties():
    return {}


@pytest.fixture
def java_broker(own_name_server, tmp_path, properties):
    settings = {**SIZES, **properties}
    broker = JavaBroker(tmp_path / "java", own_name_server.address, name="store-files", properties=settings)
    yield broker
    broker.kill()


def send_to_java(java, name_server, first, count):
    producer = java.producer("store-files", name_server)
    for start in range(first, first + count, 50):
        producer.send(
            *(
                message(TOPIC, body(number), tag=f"t{number % 3}", keys=f"k{number}", properties={"java": "ü"})
                for number in range(start, min(start + 50, first + count))
            )
        )
    producer.stop()


@pytest.mark.proof
def test_a_store_goes_from_java_to_us_and_back_again(java, own_name_server, java_broker, tmp_path):
    address = own_name_server.address
    java_broker.start()
    send_to_java(java, address, 0, 400)
    java_broker.stop()

    # Ours reads what Java wrote, and agrees with Java on every byte of the queues when it builds them itself.
    rebuilt = tmp_path / "rebuilt"
    shutil.copytree(java_broker.store, rebuilt)
    shutil.rmtree(rebuilt / "consumequeue" / TOPIC)
    shutil.rmtree(rebuilt / "consumequeue")
    open_store(rebuilt).close()
    theirs = {
        path.relative_to(java_broker.store): path.read_bytes()
        for path in java_broker.store.glob("consumequeue/*/*/" + 20 * "?")
    }
    assert len(theirs) > 4
    assert {path: (rebuilt / path).read_bytes() for path in theirs} == theirs

    store = open_store(java_broker.store)
    assert store.recovered.record_count < 10  # Java stopped in order
    messages = stored(store)
    assert sorted(item.body for item in messages) == expected(400)
    assert {item.properties["java"] for item in messages} == {"ü"}
    assert all(item.message_id and item.tag == f"t{int(item.body[:6]) % 3}" for item in messages)
    append(store, 400, 300)
    store.close()

    # Java goes on with what we wrote, after an orderly stop of ours.
    java_broker.start()
    assert sorted(item.body for item in read_all(address, TOPIC, 700)) == expected(700)
    send_to_java(java, address, 700, 100)
    java_broker.kill()

    # We recover what a killed Java broker left, and are killed ourselves.
    store = open_store(java_broker.store)
    assert store.recovered.record_count > 10
    assert sorted(item.body for item in stored(store)) == expected(800)
    append(store, 800, 50)
    end = store.max_physical_offset
    segment = store._commit_log.log.segments[-1]
    stop_like_kill_9(store)
    with segment.path.open("r+b") as file:  # a torn tail on top
        file.seek(end - segment.base)
        file.write(bytes.fromhex("00000100daa320a7") + b"torn")

    # Java recovers what a killed broker of ours left.
    java_broker.start()
    read = read_all(address, TOPIC, 850)
    assert sorted(item.body for item in read) == expected(850)
    for item in read:
        assert item.properties.get("ours", "über") == "über"
    send_to_java(java, address, 850, 10)
    assert sorted(item.body for item in read_all(address, TOPIC, 860)) == expected(860)


@pytest.mark.parametrize("properties", [WITH_CRC])
def test_java_starts_on_a_directory_that_only_we_ever_wrote(own_name_server, java_broker, create_topic):
    java_broker.store.mkdir(parents=True)
    store = open_store(java_broker.store, record_crc=True)
    append(store, 0, 150)
    store.close()
    store = open_store(java_broker.store, record_crc=True)
    append(store, 150, 150)
    stop_like_kill_9(store)  # so that Java reads every record again, and its checksums
    java_broker.start()
    create_topic(own_name_server.address, TOPIC, 4, "JavaCluster")
    read = read_all(own_name_server.address, TOPIC, 300)
    assert sorted(item.body for item in read) == expected(300)
    with Producer("store-files", own_name_server.address) as producer:
        sent = producer.send(Message(TOPIC, b"next"))
    assert sent.queue_offset == 75


@pytest.mark.parametrize("properties", [{}, WITH_CRC], ids=["checksum of the body", "checksum of the record"])
def test_records_of_both_are_the_same_bytes(java, own_name_server, java_broker, properties):
    java_broker.start()
    send_to_java(java, own_name_server.address, 0, 40)
    java_broker.kill()
    store = open_store(java_broker.store, record_crc=bool(properties))
    for queue_id in store.queue_ids(TOPIC):
        for record in iter_records(store.read(TOPIC, queue_id, 0).body):
            theirs = store.record_at(record.physical_offset)
            # Ours is written as if it lay at the same place and came from the same broker.
            own = record.properties[:-CRC_PROPERTY_SIZE] if properties else record.properties
            fields = {name: value for name, value in record._asdict().items() if name not in ("size", "body_crc")}
            ours = format_record(**{**fields, "properties": own, "with_crc": bool(properties)})
            assert ours == theirs
    store.close()
