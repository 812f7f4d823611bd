"""A task next to its broker: what it reads from files, what it pulls, and whom it believes."""

import pytest

from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import Earliest
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading import local_reader
from orbitmq.spark.reading.local_reader import LocalReader
from orbitmq.spark.reading.planning import Range
from orbitmq.spark.reading.readers import QueuePartition, read_partition
from orbitmq.wire.headers import PullMessage
from unit.spark.fake_broker import Queue
from unit.spark.reading.store_files import StoreFiles

COUNT, IN_FILES = 800, 700


@pytest.fixture
def store(tmp_path, fake, monkeypatch):
    """A broker and its files, which lack the last entries."""
    monkeypatch.setattr(local_reader, "LOCAL_COUNT_MIN", 1)
    store = StoreFiles(tmp_path)
    records = [store.add(0, f"body {number}") for number in range(COUNT)]
    fake.queues[("orders", 0)] = Queue(records, [""] * COUNT)
    del store.entries[0][IN_FILES * 20 :]
    store.write()
    fake.settings = f"# its settings\nstorePathRootDir={tmp_path}\nother=1\n"
    return store


def read(fake, begin=0, end=COUNT, broker_name="fake", **options):
    stores = {"local_stores": (fake.settings.split("storePathRootDir=")[-1].split("\n")[0],), **options}
    settings = ReadOptions(name_servers=(fake.address,), start=Earliest(), **stores)
    partition = QueuePartition(Range(MessageQueue("orders", broker_name, 0), begin, end), fake.address)
    rows = [row for batch in read_partition(partition, settings, ("queueOffset", "body")) for row in batch.to_pylist()]
    assert rows == [{"queueOffset": offset, "body": f"body {offset}".encode()} for offset in range(begin, end)]
    return sorted(pull.queue_offset for pull in fake.asked if isinstance(pull, PullMessage))


def test_what_files_have_is_not_pulled_but_for_the_proof(store, fake):
    assert read(fake, 100, 600) == [100, 599]


def test_what_files_do_not_have_yet_is_pulled(store, fake):
    assert read(fake)[:3] == [0, IN_FILES - 1, IN_FILES]


def test_without_the_option_files_are_left_alone(store, fake):
    assert read(fake, local_stores=())[:2] == [0, 32]


@pytest.mark.parametrize("offset", [0, IN_FILES - 1])
def test_files_of_another_broker_are_not_read(store, fake, offset):
    """Same queues, same offsets, another message: a copy that went its own way."""
    queue = fake.queues[("orders", 0)]
    queue.records[offset] = queue.records[offset].replace(b"body", b"BODY")
    with pytest.raises(AssertionError, match="BODY"):
        read(fake, fail_on_data_loss=False)  # its checksum stays the old one

    assert len([pull for pull in fake.asked if isinstance(pull, PullMessage)]) > 3


@pytest.mark.parametrize(
    "settings", ["", "storePathRootDir=", "storePathRootDir=store", "storePathRootDir=/nowhere/store"]
)
def test_a_store_that_is_not_to_be_found_is_pulled_from(store, fake, settings):
    fake.settings = settings

    assert len(read(fake)) > 3


@pytest.mark.parametrize("where", ["/elsewhere", "{store}/below", "{store}x", "{store}/../x"])
def test_a_store_outside_of_what_the_option_names_is_left_alone(store, fake, tmp_path, where):
    assert len(read(fake, local_stores=(where.format(store=tmp_path),))) > 3


@pytest.mark.parametrize("said", ["{store}/a/../..", "/etc", "{store}\0", "{store}/..//"])
def test_a_broker_names_no_server_outside_of_what_the_option_names(store, fake, tmp_path, said, monkeypatch):
    monkeypatch.setattr(local_reader, "QueueFileReader", None)
    fake.settings = f"storePathRootDir={said.format(store=tmp_path)}\n"
    assert len(read(fake, local_stores=(str(tmp_path),))) > 3
    fake.settings = f"storePathRootDir={tmp_path}\nstorePathCommitLog={said.format(store=tmp_path)}\n"
    assert len(read(fake, local_stores=(str(tmp_path),))) > 3


def test_a_topic_that_is_no_name_leads_nowhere(store, fake, tmp_path, monkeypatch):
    monkeypatch.setattr(local_reader, "QueueFileReader", None)
    settings = ReadOptions(name_servers=(fake.address,), start=Earliest(), local_stores=(str(tmp_path),))
    wanted = Range(MessageQueue("../../orders", "fake", 0), 0, COUNT)
    assert list(LocalReader(wanted, fake.address, settings, ("body",)).batches()) == []


def test_a_broker_that_does_not_say_where_its_store_is_is_pulled_from(store, fake):
    fake.refuses = {local_reader.GetBrokerConfig}

    assert len(read(fake)) > 3


def test_another_path_of_the_log_counts(store, fake, tmp_path):
    (tmp_path / "commitlog").rename(tmp_path / "log")
    fake.settings += f"storePathCommitLog={tmp_path / 'log'}\n"

    assert read(fake, 0, 600) == [0, 599]


def test_a_record_that_is_not_what_its_entry_says_is_pulled(store, fake):
    at = int.from_bytes(store.entries[0][300 * 20 : 300 * 20 + 8], "big")
    store.log[at + 4] ^= 1
    store.write()

    assert read(fake)[:2] == [0, 0]


@pytest.mark.parametrize("options", [{"sql": "a = 1"}, {"broker_name": "__syslo__global__"}])
def test_what_brokers_alone_can_do_is_left_to_them(store, fake, options):
    broker_name = options.pop("broker_name", "fake")
    settings = ReadOptions(name_servers=(fake.address,), start=Earliest(), local_stores=("/",), **options)
    wanted = Range(MessageQueue("orders", broker_name, 0), 7, COUNT)
    batches = LocalReader(wanted, fake.address, settings, ("body",)).batches()

    with pytest.raises(StopIteration) as ended:
        next(batches)
    assert ended.value.value == 7
    assert fake.asked == []


def test_a_short_range_is_pulled(store, fake, monkeypatch):
    monkeypatch.setattr(local_reader, "LOCAL_COUNT_MIN", 100)
    read(fake, 0, 99)

    assert not [asked for asked in fake.asked if isinstance(asked, local_reader.GetBrokerConfig)]
