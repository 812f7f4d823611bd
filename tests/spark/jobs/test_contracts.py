"""`orbitmq job contracts` on real flights: those that were cancelled have no departure, and break the contract that asks for one."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import orjson
import pytest

from examples.quickstart.flights import find_flights, read_flights, to_message
from orbitmq import Message
from orbitmq.errors import ConfigError
from orbitmq.spark.jobs.contract_checks import checked, load_contract
from orbitmq.spark.jobs.contracts import ORIGIN, REASON, ContractChecker, ContractPlan, hold_to_contract
from orbitmq.spark.jobs.screen import Screen
from spark.jobs.killing import is_killed, kill_when, start_job
from spark.jobs.publishing import make_topic, publish_flights

pytestmark = pytest.mark.spark

FLIGHTS = 2_000
DECLARED = "carrier string not null, flight int not null, dep_time int not null, time_hour timestamp"


@pytest.fixture
def plan(cluster, topic, tmp_path):
    """Return a plan whose contract asks for a departure, and whose quarantine exists."""
    make_topic(cluster, f"{topic}-quarantine")
    file = tmp_path / "flight.ddl"
    file.write_text(DECLARED)
    contract = load_contract(file)
    return ContractPlan(topic, tmp_path / "judged", contract, f"{topic}-quarantine", "earliest", 500)


def cancelled():
    """Return the bodies of the flights that did not depart."""
    flights = islice(read_flights(find_flights(None, Path(".cache")), 1), FLIGHTS)
    bodies = [to_message("any", flight).body for flight in flights]
    return sorted(body for body in bodies if orjson.loads(body).get("dep_time") is None)


def quarantined(spark, cluster, plan):
    return spark.read.format("rocketmq").options(**cluster.options(plan.quarantine)).load().collect()


@is_killed
@pytest.mark.interop
def test_flights_that_were_cancelled_go_to_quarantine_once_though_the_job_is_killed(spark, cluster, plan, is_killed):
    publish_flights(cluster.name_servers, plan.topic, 0, FLIGHTS)
    if is_killed:
        words = ("--contract", plan.contract.file, "--quarantine", plan.quarantine, "--rows-per-batch", 500)
        job = start_job(cluster.name_servers, "contracts", plan.topic, plan.directory, *words)
        kill_when(job, plan.directory, "bad/date=*/batch=b00000001", 1)

    verdicts = hold_to_contract(spark, cluster, plan, Screen())

    assert all(verdict.holds for verdict in verdicts), verdicts
    letters, expected = quarantined(spark, cluster, plan), cancelled()
    assert sorted(bytes(letter["body"]) for letter in letters) == expected
    assert {letter["properties"][REASON] for letter in letters} == {"missing: dep_time"}
    assert len({letter["properties"][ORIGIN] for letter in letters}) == len(expected)
    good = spark.read.parquet(str(plan.good))
    assert good.where("value.dep_time is not null and value.carrier = tags").count() == FLIGHTS - len(expected)
    again = hold_to_contract(spark, cluster, plan, Screen())
    assert all(verdict.holds for verdict in again), again
    assert len(quarantined(spark, cluster, plan)) == len(expected)


@pytest.mark.interop
def test_a_batch_that_comes_again_sends_only_what_is_not_in_quarantine_yet(spark, cluster, plan, send, read):
    make_topic(cluster, plan.topic)
    send([Message(plan.topic, body, tag="t") for body in (b"{", b'{"carrier":"UA"}')])
    rows = read(includeDecodeError="true")
    first = rows.where("body = cast('{' as binary)")
    ContractChecker(spark, cluster, plan).write(first, 0)  # and here it was killed, with one of two sent

    ContractChecker(spark, cluster, plan).write(rows, 0)

    letters = quarantined(spark, cluster, plan)
    reasons = sorted(letter["properties"][REASON] for letter in letters)
    assert reasons == ["missing: flight, dep_time", "the body is not a JSON document"]
    assert {letter["tags"] for letter in letters} == {"t"}


@pytest.mark.interop
def test_a_bad_message_that_cannot_be_sent_stays_in_bad_alone(spark, cluster, plan, send, topic):
    make_topic(cluster, plan.topic)
    send([Message(plan.topic, b"{", properties={"long": "x" * 32_600}), Message(plan.topic, b"{")])

    results = hold_to_contract(spark, cluster, plan, Screen())

    assert all(result.holds for result in results), results
    assert "each in quarantine once: 1 of 2, and 1 only in bad/, which cannot be sent" in results[-1].claim
    reasons = [row["notSent"] for row in spark.read.parquet(str(plan.bad)).collect()]
    assert sorted(reason is None for reason in reasons) == [False, True]
    assert "properties" in next(filter(None, reasons))


BODIES = [
    (b'{"a":1,"c":{"d":2},"more":[]}', None),
    (b'{"a":1,"c":null}', None),
    (b'{"a":"1"}', "not as declared: a (int)"),
    (b'{"a":30000000000,"t":"yesterday"}', "not as declared: a (int), t (timestamp)"),
    (b"{}", "missing: a"),
    (b'{"a":1,"c":{}}', "missing: c.d"),
    (b'[{"a":1}]', "the body is not a JSON object"),
    (b"null", "the body is not a JSON object"),
    (b"", "the body is not a JSON document"),
    (b'{"a":1', "the body is not a JSON document"),
    (b'{"a":1}{"a":2}', "the body is not a JSON document"),
    (b'{"a":1},{"a":2}', "the body is not a JSON document"),
    (b'{"a":1} and more', "the body is not a JSON document"),
    (b'{"a":1,"t":"\xff"}', "the body is no UTF-8 text"),
]
"""Bodies, and what is wrong with each; None: nothing."""


@pytest.mark.interop
def test_each_body_is_told_what_is_wrong_with_it(spark, tmp_path):
    file = tmp_path / "a.ddl"
    file.write_text("a int not null, c struct<d: double not null>, t timestamp")
    rows = spark.createDataFrame([(body, number) for number, (body, _) in enumerate(BODIES)], "body binary, flag int")
    found = sorted(checked(rows, load_contract(file)).collect(), key=lambda row: row["flag"])

    assert [(bytes(row["body"]), row["reason"]) for row in found] == BODIES


def test_what_spark_does_not_understand_is_one_sentence(spark, cluster, plan, tmp_path):
    def fails(**changes):
        with pytest.raises(ConfigError) as raised:
            hold_to_contract(spark, cluster, plan._replace(**changes), Screen())
        return str(raised.value)

    file = tmp_path / "schema"
    file.write_text('{"type":"record"}')
    assert "one that Spark understands ([PARSE_SYNTAX_ERROR]" in fails(contract=load_contract(file))
    assert "orbitmq topic create none" in fails(quarantine="none")
    assert "another topic" in fails(quarantine=plan.topic)
    assert not plan.directory.exists()


@pytest.mark.interop
def test_the_page_about_decoding_runs(spark, read, send, topic):
    from pyspark.sql.functions import length

    send([Message(topic, b'{"carrier":"UA","dep_time":517,"time_hour":"2013-01-01 05:00:00"}'), Message(topic, b"{")])
    page = (Path(__file__).parents[3] / "docs/howto/decode-bodies.md").read_text().split("## Avro")[0]
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    # The page takes its example from the first message: here the one that is JSON, whatever queues they went to.
    names = {"spark": spark, "messages": read().orderBy(length("body").desc())}
    for block in blocks[1:]:
        exec(block, names)
    assert [row["carrier"] for row in names["late"].collect()] == ["UA"]
    assert sorted(row["carrier"] or "" for row in names["whole"].collect()) == ["", "UA"]
    assert names["guessed"].columns == ["flight"]
