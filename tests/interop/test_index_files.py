"""Index files that change hands: Java 5.3.3 and we build the same bytes, and answer queries from each other's files."""

from __future__ import annotations

import re
import shutil

import pytest

from interop.peers import JavaBroker, JavaClients, message
from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig
from orbitmq.store.index.search import IndexQuery
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import iter_records

TOPIC = "indexed"
SLOTS, ENTRIES = 50, 100
SEGMENT_SIZE = 1024 * 1024
SETTINGS = {"maxHashSlotNum": SLOTS, "maxIndexNum": ENTRIES, "mappedFileSizeCommitLog": SEGMENT_SIZE}
ALWAYS = (0, 1 << 62)


def open_store(path):
    config = StoreConfig(
        path=path,
        segment_size=SEGMENT_SIZE,
        consume_queue_units=3000,
        has_index=True,
        index_slots=SLOTS,
        index_entries=ENTRIES,
    )
    return Store.open(config, store_host=Host("127.0.0.1", 10911))


def bodies(store, key, count_max=64):
    """Ask for a key, and return the bodies of the messages."""
    found = []
    store.query(IndexQuery(TOPIC, key, count_max, *ALWAYS), found.append)
    return [bytes(record.body).decode() for record in iter_records(found[0].body)]


def index_bytes(path):
    return [file.read_bytes() for file in sorted((path / "index").iterdir())]


def keys_of(number):
    return f"k{number} every{number % 3}  schlüssel{number % 5} 𝄞{number % 5}"


def append(store, first, count):
    for number in range(first, first + count):
        properties = format_properties({"KEYS": keys_of(number), "UNIQ_KEY": f"{number:032X}"})
        store.append(Draft(TOPIC, number % 4, b"%d" % number, properties))


def send(java, name_server, first, count):
    producer = java.producer("indexed-producers", name_server, send_timeout_ms=30_000)
    sent = producer.send(*(message(TOPIC, b"%d" % n, keys=keys_of(n)) for n in range(first, first + count)))
    producer.stop()
    return sent


@pytest.fixture
def java_broker(own_name_server, tmp_path):
    broker = JavaBroker(tmp_path / "java", own_name_server.address, name="indexed", properties=SETTINGS)
    yield broker
    broker.kill()


@pytest.fixture
def tools(jars, tmp_path):
    """A JVM of our own: mqadmin's queryMsgByUniqueKey keeps its first cluster for as long as a JVM lives."""
    clients = JavaClients(tmp_path / "tools")
    yield clients
    clients.close()


@pytest.fixture
def java_finds(tools, own_name_server):
    """Ask with mqadmin, and return the queue offsets of what it found, or what it printed of one message."""

    def ask(command, *arguments):
        printed = tools.mqadmin(command, "-n", own_name_server.address, "-t", TOPIC, *arguments)
        print(command, arguments, printed)
        if command != "queryMsgByKey":
            return printed
        return re.findall(r"^(\w{32,}) +(\d+) +(\d+)", printed, re.MULTILINE)

    return ask


@pytest.mark.proof
def test_index_files_go_from_java_to_us_and_back_again(java, own_name_server, java_broker, java_finds, tmp_path):
    java_broker.start()
    sent = send(java, own_name_server.address, 0, 60)
    theirs = {key: {found[0] for found in java_finds("queryMsgByKey", "-k", key)} for key in ("k7", "every1", "𝄞2")}
    assert {key: len(found) for key, found in theirs.items()} == {"k7": 1, "every1": 20, "𝄞2": 12}
    java_broker.stop()

    # We build from the log what Java has built, byte for byte, over several files.
    rebuilt = tmp_path / "rebuilt"
    shutil.copytree(java_broker.store, rebuilt)
    shutil.rmtree(rebuilt / "index")
    store = open_store(rebuilt)
    assert bodies(store, "k59") == ["59"]
    store.close()
    assert len(index_bytes(java_broker.store)) > 2
    assert index_bytes(rebuilt) == index_bytes(java_broker.store)

    # We answer from Java's files, and go on with the last one.
    store = open_store(java_broker.store)
    assert store.index.behind == 0
    before = index_bytes(java_broker.store)
    assert bodies(store, "every1") == [str(number) for number in range(1, 60, 3)]
    assert bodies(store, sent[7]["message_id"]) == ["7"]
    append(store, 60, 60)
    assert bodies(store, "schlüssel4") == [str(number) for number in range(4, 120, 5)]
    store.close()
    assert index_bytes(java_broker.store)[: len(before) - 1] == before[:-1]

    # Java answers from ours, and goes on.
    java_broker.start()
    assert len(java_finds("queryMsgByKey", "-k", "every1")) == 40
    assert f"{100:032X}" in java_finds("queryMsgByUniqueKey", "-i", f"{100:032X}")
    send(java, own_name_server.address, 120, 30)
    assert len(java_finds("queryMsgByKey", "-k", "every1", "-m", "64")) == 50
    java_broker.kill()

    # We put right what a killed Java broker leaves, and Java what we leave.
    store = open_store(java_broker.store)
    assert bodies(store, "schlüssel4") == [str(number) for number in range(4, 150, 5)]
    append(store, 150, 30)
    assert bodies(store, "k170") == ["170"]
    store._close_files()  # as kill -9: no note, no slots, the abort file stays
    store = open_store(java_broker.store)
    assert bodies(store, "schlüssel4") == [str(number) for number in range(4, 180, 5)]
    store.close()
    java_broker.start()
    assert len(java_finds("queryMsgByKey", "-k", "every1", "-m", "64")) == 60
