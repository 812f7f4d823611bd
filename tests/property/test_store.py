"""The store against a model: lists of messages, one per queue, through appends, reads, restarts and kills."""

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from orbitmq.model.message import Host
from orbitmq.store import Boundary, Draft, FlushMode, ReadStatus, Store, StoreConfig
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.properties import format_properties, tag_code
from orbitmq.wire.messages.record import iter_records
from seeds import examples

QUEUES = st.tuples(st.sampled_from(["orders", "bills"]), st.integers(0, 1))
TAGS = st.sampled_from(["", "a", "b"])


class StoreAgainstLists(RuleBasedStateMachine):
    """Files so small that they roll all the time."""

    def __init__(self):
        super().__init__()
        self.disk = FakeDisk()
        self.now_ms = 1_700_000_000_000
        self.model = {}  # (topic, queue id) -> list of (body, tag, stored at)
        self.readable = {}

    @initialize(flush=st.sampled_from(FlushMode), units=st.integers(1, 8), record_crc=st.booleans())
    def start(self, flush, units, record_crc):
        self.config = StoreConfig(
            path=Path("/store"), segment_size=1024, consume_queue_units=units, flush=flush, record_crc=record_crc
        )
        self.open()

    def open(self):
        self.store = Store.open(self.config, store_host=Host("127.0.0.1", 1), clock=lambda: self.now_ms, disk=self.disk)
        self.readable = {queue: len(messages) for queue, messages in self.model.items()}

    @rule(queue=QUEUES, body=st.binary(max_size=400), tag=TAGS, later_ms=st.integers(0, 2000))
    def append(self, queue, body, tag, later_ms):
        self.now_ms += later_ms
        properties = format_properties({"TAGS": tag}) if tag else b""
        topic, queue_id = queue
        result = self.store.append(Draft(topic, queue_id, body, properties))
        messages = self.model.setdefault(queue, [])
        assert result.queue_offset == len(messages)
        messages.append((body, tag, self.now_ms))
        if self.config.flush is FlushMode.ASYNC:
            self.readable[queue] = len(messages)

    @rule(queue=QUEUES, bodies=st.lists(st.binary(max_size=200), max_size=6))
    def append_batch(self, queue, bodies):
        topic, queue_id = queue
        results = self.store.append_batch([Draft(topic, queue_id, body) for body in bodies])
        messages = self.model.setdefault(queue, [])
        assert [result.queue_offset for result in results] == list(range(len(messages), len(messages) + len(bodies)))
        messages += [(body, "", self.now_ms) for body in bodies]
        if self.config.flush is FlushMode.ASYNC:
            self.readable[queue] = len(messages)

    @rule()
    def flush(self):
        self.store.flush()
        self.readable = {queue: len(messages) for queue, messages in self.model.items()}

    @rule(clean=st.booleans())
    def restart(self, clean):
        if clean:
            self.store.close()
        else:
            self.disk = self.disk.after_kill()
        self.open()

    @rule(queue=QUEUES, start=st.integers(0, 12), count_max=st.integers(1, 9), tags=st.none() | st.frozensets(TAGS))
    def read(self, queue, start, count_max, tags):
        codes = None if tags is None else frozenset(map(tag_code, tags))
        topic, queue_id = queue
        found = self.store.read(topic, queue_id, start, count_max, 2000, codes)
        visible = self.model.get(queue, [])[: self.readable.get(queue, 0)]
        wanted = [
            offset
            for offset in range(start, min(found.next_offset, len(visible)))
            if tags is None or visible[offset][1] in tags
        ]
        records = list(iter_records(found.body))
        assert [record.queue_offset for record in records] == wanted
        assert [bytes(record.body) for record in records] == [visible[offset][0] for offset in wanted]
        assert (found.status is ReadStatus.FOUND) == bool(records)
        if start < len(visible):
            assert found.next_offset > start

    @rule(queue=QUEUES, back_ms=st.integers(-10, 5000), boundary=st.sampled_from(Boundary))
    def search(self, queue, back_ms, boundary):
        topic, queue_id = queue
        times = [stored for _body, _tag, stored in self.model.get(queue, [])[: self.readable.get(queue, 0)]]
        wanted = self.now_ms - back_ms
        if boundary is Boundary.LOWER:
            expected = sum(time < wanted for time in times)
        else:
            expected = max(sum(time <= wanted for time in times) - 1, 0)
        assert self.store.offset_at(topic, queue_id, wanted, boundary) == expected

    @invariant()
    def ends_agree(self):
        for queue, messages in self.model.items():
            assert self.store.max_offset(*queue) == self.readable.get(queue, 0)
            assert self.store.min_offset(*queue) == 0
            if self.readable.get(queue, 0):
                assert self.store.earliest_stored_at_ms(*queue) == messages[0][2]


StoreAgainstLists.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
TestStoreAgainstLists = StoreAgainstLists.TestCase
