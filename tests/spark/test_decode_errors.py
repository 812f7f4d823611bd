"""Bodies that cannot be decoded: rows with the stored body and a reason, which stop neither a batch nor a stream."""

from __future__ import annotations

import asyncio
import zlib

import pytest

from orbitmq import Message
from orbitmq.spark.jobs.archive import ArchivePlan, archive
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.contract_checks import load_contract
from orbitmq.spark.jobs.contracts import REASON, ContractPlan, hold_to_contract
from orbitmq.spark.jobs.replay import ReplayPlan, replay
from orbitmq.spark.jobs.screen import Screen
from spark.undecodable import send_undecodable

pytestmark = pytest.mark.spark


def test_a_body_that_cannot_be_decompressed_stops_neither_batch_nor_stream(
    spark, rocketmq_session, topic, send, read, stream, tmp_path
):
    send([Message(topic, b"before")])
    (address,) = rocketmq_session.brokers.values()
    bomb = zlib.compress(bytes(5 * 1024 * 1024))
    for body in (b"not zlib", bomb):
        asyncio.run(send_undecodable(address, topic, body))
    send([Message(topic, b"behind")])

    rows = read(includeDecodeError="true").collect()
    reasons = {bytes(row.body): row.decodeError for row in rows}
    assert reasons.keys() == {b"before", b"not zlib", bomb, b"behind"}
    assert reasons[b"before"] is reasons[b"behind"] is None
    assert "ZLIB data" in reasons[b"not zlib"]
    assert "decompressed" in reasons[bomb]
    assert read(columns="queueId,decodeError").where("decodeError IS NOT NULL").count() == 2
    assert "decodeError" not in read().columns
    assert sum(stream()) == 4
    assert {bytes(row.body) for row in spark.read.parquet(str(tmp_path / "out")).collect()} == reasons.keys()


def change_on_disk(store, body: bytes) -> None:
    """Change one byte of a stored body in the CommitLog's file."""
    (path,) = [path for path in (store / "commitlog").iterdir() if body in path.read_bytes()]
    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(body))
        file.write(b"X")


@pytest.mark.interop
@pytest.mark.parametrize("source", ["broker", pytest.param("files", marks=pytest.mark.proof)])
def test_a_body_that_has_changed_on_disk_fails_or_says_so(spark, rocketmq, send, source):
    from orbitmq.blocking import Producer

    with Producer("spark-tests", rocketmq.name_servers) as producer:
        for n in range(200):
            producer.send(Message("orders", b"body %03d." % n))
    store = rocketmq.data_dir / "broker-a"
    change_on_disk(store, b"body 077.")
    options = {"nameServer": rocketmq.name_servers, "topic": "orders"}
    if source == "files":
        rocketmq.stop_broker()
        options = {"commitLogPath": str(store), "topic": "orders"}

    def load(**more: str):
        return spark.read.format("rocketmq").options(**options, **more).load()

    with pytest.raises(Exception, match=r"offset \d+ of queue \d of topic orders.*checksum.*failOnDataLoss"):
        load().collect()
    for fails in ("false", "true"):
        rows = load(failOnDataLoss=fails, includeDecodeError="true").collect()
        assert len(rows) == 200
        assert [bytes(row.body) for row in rows if row.decodeError] == [b"Xody 077."]


class KeepingScreen(Screen):
    """A screen that keeps its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)


@pytest.mark.interop
def test_bodies_that_cannot_be_decoded_are_archived_with_the_reason_and_not_replayed(
    spark, rocketmq_session, topic, send, read, tmp_path
):
    cluster, (address,) = Cluster(rocketmq_session.name_servers), rocketmq_session.brokers.values()
    send([Message(topic, b"good"), Message(f"{topic}-again", b"first"), Message(f"{topic}-bad", b"first")])
    asyncio.run(send_undecodable(address, topic, b'{"a":1}'))
    plan = ArchivePlan(topic, tmp_path / "archive", "earliest", 100, True)
    assert all(check.holds for check in archive(spark, cluster, plan, Screen()))
    assert [
        bytes(row.body) for row in spark.read.parquet(str(plan.directory)).where("decodeError IS NOT NULL").collect()
    ] == [b'{"a":1}']

    own = tmp_path / "own"  # of a query that did not ask for the column
    spark.read.parquet(str(plan.directory)).where("decodeError IS NULL").drop("decodeError").write.parquet(str(own))
    for source, told in ((plan.directory, True), (own, False)):
        screen = KeepingScreen()
        again = ReplayPlan(source, f"{topic}-again", None, tmp_path / f"of-{source.name}", 1_000_000, 100)
        assert all(check.holds for check in replay(spark, cluster, again, screen))
        assert any(step.startswith(f"left out: {topic}/") and "ZLIB" in step for step in screen.steps) is told
    assert sorted(bytes(row.body) for row in read(topic=f"{topic}-again").collect()) == [b"first", b"good", b"good"]


@pytest.mark.interop
def test_a_body_that_cannot_be_decoded_keeps_no_contract(spark, rocketmq_session, topic, send, read, tmp_path):
    cluster, (address,) = Cluster(rocketmq_session.name_servers), rocketmq_session.brokers.values()
    send([Message(topic, b'{"a":2}'), Message(f"{topic}-bad", b"first")])
    asyncio.run(send_undecodable(address, topic, b'{"a":1}'))
    (tmp_path / "a.ddl").write_text("a int")
    contract = load_contract(tmp_path / "a.ddl")
    plan = ContractPlan(topic, tmp_path / "judged", contract, f"{topic}-bad", "earliest", 100)

    assert all(check.holds for check in hold_to_contract(spark, cluster, plan, Screen()))
    assert [row.a for row in spark.read.parquet(str(plan.good)).select("value.a").collect()] == [2]
    reasons = [row.properties.get(REASON) for row in read(topic=f"{topic}-bad").collect()]
    assert any(reason and reason.startswith("the body cannot be decoded: ") for reason in reasons)
