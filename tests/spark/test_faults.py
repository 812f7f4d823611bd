"""Queries while a NameServer is killed, a broker has left its routes, or one is busy: every row, or a sentence that says why not."""

from __future__ import annotations

from collections import Counter

import pytest

from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.broker.handlers import HANDLERS
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.errors import Rejected
from orbitmq.testing import BlockingCluster, LocalCluster

pytestmark = pytest.mark.spark

TOPIC = "orders"


class Stream:
    """A stream of the topic into Parquet, with a checkpoint that each of its runs goes on from."""

    def __init__(self, spark, cluster: BlockingCluster, directory, **options: str) -> None:
        self._spark, self._directory = spark, directory
        self._options = {"nameServer": cluster.name_servers, "topic": TOPIC, "startingOffsets": "earliest"} | options

    def start(self, **trigger):
        frame = self._spark.readStream.format("rocketmq").options(**self._options).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{self._directory}/checkpoint")
        return writer.option("path", f"{self._directory}/out").trigger(**trigger).start()

    def run(self) -> None:
        self.start(availableNow=True).awaitTermination()

    def found(self) -> Counter[int]:
        return numbers(self._spark.read.parquet(f"{self._directory}/out"))


def numbers(frame) -> Counter[int]:
    return Counter(int(bytes(row.body)) for row in frame.select("body").collect())


def send(producer: Producer, *numbers: int) -> None:
    producer.send_all(Message(TOPIC, b"%d" % number) for number in range(*numbers))


@pytest.mark.interop
def test_a_name_server_that_is_killed_under_a_query_costs_no_row(spark, tmp_path):
    with LocalCluster.running(processes=True) as cluster, Producer("makers", cluster.name_servers) as producer:
        send(producer, 40)
        stream = Stream(spark, cluster, tmp_path)
        query = stream.start(processingTime="0 seconds")
        try:
            query.processAllAvailable()
            cluster.kill_name_server()
            send(producer, 40, 80)
            query.processAllAvailable()
            assert stream.found() == Counter(range(80)), "the query goes on without it"
        finally:
            query.stop()

        send(producer, 80, 100)
        again = stream.start(availableNow=True)  # it knows no queue, and there is no server to ask
        cluster.start_name_server()
        again.awaitTermination()
        assert stream.found() == Counter(range(100))


@pytest.mark.interop
def test_a_run_says_which_queues_of_its_checkpoint_no_route_has_and_reads_them_when_they_are_back(spark, tmp_path):
    with LocalCluster.running(processes=True, brokers=2) as cluster:
        with Producer("makers", cluster.name_servers) as producer:
            send(producer, 40)
            stream = Stream(spark, cluster, tmp_path, brokerTimeoutMs="2000")
            stream.run()
            send(producer, 40, 80)
        cluster.kill_broker("broker-b")
        with pytest.raises(Exception, match=r"no broker holds queues.*broker-b") as raised:
            stream.run()
        assert "Start" in str(raised.value), "what to do"

        cluster.start_broker("broker-b")
        stream.run()
        assert stream.found() == Counter(range(80))


class Busy:
    """Makes brokers answer their next requests of each kind that queries send with SYSTEM_BUSY."""

    def __init__(self) -> None:
        self.left: Counter[int] = Counter()

    def __call__(self, code: int, handler):
        def answer(part, call):
            if self.left[code] > 0:
                self.left[code] -= 1
                raise Rejected(ResponseCode.SYSTEM_BUSY, "the broker is busy, of purpose")
            return handler(part, call)

        return answer


ASKED = (
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.PULL_MESSAGE,
)


@pytest.fixture
def busy(monkeypatch) -> Busy:
    made, bind = Busy(), HANDLERS.bind

    def bind_busy(service):
        bound = bind(service)
        for code in ASKED:
            header, handler, *others = bound[code]
            bound[code] = (header, made(code, handler), *others)
        return bound

    monkeypatch.setattr(HANDLERS, "bind", bind_busy)
    return made


@pytest.mark.interop
def test_a_busy_broker_is_asked_again_until_every_row_is_read(spark, busy, tmp_path):
    with LocalCluster.running() as cluster:
        with Producer("makers", cluster.name_servers) as producer:
            send(producer, 40)
        options = {"nameServer": cluster.name_servers, "topic": TOPIC}
        busy.left.update(dict.fromkeys(ASKED, 3))
        assert numbers(spark.read.format("rocketmq").options(**options).load()) == Counter(range(40))
        assert busy.left[RequestCode.PULL_MESSAGE] == busy.left[RequestCode.GET_TOPIC_STATS_INFO] == 0, "it was busy"

        stream = Stream(spark, cluster, tmp_path)
        busy.left.update(dict.fromkeys(ASKED, 3))
        stream.run()
        assert stream.found() == Counter(range(40))


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.GET_TOPIC_STATS_INFO])
def test_a_broker_that_stays_busy_fails_the_query_with_its_reason(spark, busy, code):
    with LocalCluster.running() as cluster:
        with Producer("makers", cluster.name_servers) as producer:
            send(producer, 40)
        options = {"nameServer": cluster.name_servers, "topic": TOPIC, "brokerTimeoutMs": "1500"}
        busy.left.update(dict.fromkeys(ASKED if code != RequestCode.PULL_MESSAGE else [code], 10000))
        with pytest.raises(Exception, match="the broker is busy, of purpose") as raised:
            spark.read.format("rocketmq").options(**options).load().count()
        assert "orders/broker-a/" in str(raised.value)
