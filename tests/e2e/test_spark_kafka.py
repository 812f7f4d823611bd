"""The rows next to Kafka's connector: medians of turns, shares of bars, the table. Kafka itself is not needed."""

import json
import subprocess
import sys
import time

import pytest
from benchmarks import report
from benchmarks.figures import measure_spark
from benchmarks.load import BenchmarkError
from benchmarks.measure import Plan
from benchmarks.report import spark_table
from benchmarks.rows import SPARK_ROWS, PeerBar, SparkRow
from benchmarks.spark_kafka import Bench, Case, Turn, quiet_turn, summarise
from benchmarks.spark_latency import acknowledgements, send
from benchmarks.usage import Usage, usage_of

from orbitmq.testing import LocalCluster


def case(*bars, unit="rows/s"):
    return Case(SparkRow("spark-all", "batch", bars, unit), {}, lambda _frame: None, 1000)


def turns(*figures, cpu_s=0.5, others=0.0):
    return [Turn([float(figure)], Usage(1.0, cpu_s, others)) for figure in figures]


def shares(case, taken):
    return case.row.shares({peer: side["value"] for peer, side in summarise(case, taken).items()})


@pytest.mark.parametrize(
    ("bar", "text", "share"),
    [
        (PeerBar(2, "kafka"), ">= 2 x Kafka", 0.75),
        (PeerBar(300), ">= 300", 0.5),
        (PeerBar(1, "kafka", "kafka"), "kafka >= 1 x Kafka", 1.0),
    ],
)
def test_a_rates_share_of_its_bar_is_that_of_medians(bar, text, share):
    assert shares(case(bar), {"kafka": turns(90, 100, 900), "ours": turns(10, 150, 160)}) == {text: share}


def test_a_time_is_to_stay_below_its_bar():
    few, taken = case(PeerBar(1.2, "kafka"), unit="ms"), {"kafka": turns(100, 100), "ours": turns(240, 240)}

    assert shares(few, taken) == {"<= 1.2 x Kafka": 0.5}
    assert summarise(few, taken)["ours"]["p95"] == 240


def test_one_figure_of_a_time_has_no_p95():
    queues = case(PeerBar(10), unit="s")

    found = summarise(queues, {"ours": turns(4)})
    assert "p95" not in found["ours"]
    assert queues.row.shares({"ours": found["ours"]["value"]}) == {"<= 10": 2.5}


def test_the_exactly_once_sink_is_compared_with_ours_at_least_once():
    row = next(row for row in SPARK_ROWS if row.name == "spark-exactly")

    assert row.shares({"at-least-once": 100, "ours": 40}) == {">= 0.5 x at-least-once": 0.8}


async def test_our_sender_tells_when_each_message_was_acknowledged():
    async with LocalCluster() as cluster:
        before_us = time.time_ns() // 1000
        acknowledged = await send(cluster.name_servers, "latency", 1000, 50)

    assert len(acknowledged) == 50
    assert min(acknowledged) >= before_us
    assert max(acknowledged) >= before_us + 49_000  # of 50 at 1,000 a second, the last is sent then


def test_a_message_without_acknowledgement_fails_the_case():
    sender = [sys.executable, "-c", "print(1_000_000, 0, 3_000_000, sep='\\n')"]

    with pytest.raises(BenchmarkError, match="2 of 3 messages"):
        acknowledgements(sender, "latency", 1, 3)


def test_without_a_rival_there_is_no_share():
    assert shares(case(PeerBar(1, "kafka")), {"ours": turns(1)}) == {}


def test_processor_time_is_that_of_a_row():
    assert summarise(case(), {"ours": turns(1, 1)})["ours"]["cpu_us"] == 500.0


def test_a_disturbed_turn_is_taken_again_and_the_quietest_counts():
    taken = iter([*turns(1, others=0.9), *turns(2, others=0.4), *turns(3, others=0.6), *turns(4)])

    assert quiet_turn(lambda: next(taken), 3).figures == [2]
    assert quiet_turn(lambda: next(taken), 3).figures == [4]


def test_the_table_has_both_and_their_ratio():
    taken = {"kafka": turns(100), "tuned": turns(200), "ours": turns(150), "local": turns(310)}
    found = summarise(case(), taken)

    line = "| 100 rows/s | 200 rows/s | 150 rows/s | 1.50 | 0.75 | >= 1.5 x Kafka: reached; local >= 1.5 x tuned: reached |"
    assert line in spark_table({"spark-all": found})


@pytest.mark.parametrize("row", SPARK_ROWS, ids=[row.name for row in SPARK_ROWS])
def test_every_row_has_its_case(row):
    assert callable(getattr(Bench, f"_{row.case.replace('-', '_')}"))


SCRIPT = """#!/bin/sh
echo 'a line of the JVM'
echo '{"row": "spark-all", "result": {"ours": {"value": 1}}}'
exit 1
"""


def test_cases_that_are_done_are_reported_when_a_later_one_fails(tmp_path, monkeypatch):
    script = tmp_path / "python"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    found = []

    with pytest.raises(BenchmarkError, match="spark_kafka"):
        found.extend(measure_spark(SPARK_ROWS, Plan(), print))
    assert found == [("spark-all", {"ours": {"value": 1}})]


def test_a_disturbed_case_does_not_keep_another_one_from_being_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    quiet, busy = ({"kafka": turns(1), "ours": turns(1, others=others)} for others in (0.0, 0.3))
    found = {"spark-all": summarise(case(), quiet), "spark-four": summarise(case(), busy)}

    latest = report.save(found, {}, keep=True)

    assert list(json.loads(latest.read_text())["rows"]) == ["spark-all"]
    measured = report.summary(found, 0)["measured"]
    assert measured == "0 of 2 bars reached, 0 bad answers; not compared: spark-all; disturbed: spark-four"


def test_the_work_of_this_process_is_no_work_of_others():
    used = usage_of(lambda: sum(range(3_000_000)))

    assert used.cpu_s > 0
    assert used.seconds > 0


BURN = "import time\nwhile time.process_time() < 0.6: pass"
PARENT = """
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.{how})
subprocess.Popen([sys.executable, "-c", {code!r}]).wait()
print(flush=True)
input()
"""


@pytest.mark.parametrize("depth", [1, 2])
def test_the_work_of_a_child_that_has_ended_is_no_work_of_others(depth):
    code = BURN
    for _ in range(depth - 1):
        code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}], check=True)"

    used = usage_of(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    assert 0.55 < used.cpu_s < 1.1  # not twice either


@pytest.mark.parametrize("how", ["SIG_DFL", "SIG_IGN"])  # pyspark.daemon ignores the end of its workers
def test_the_work_of_a_child_that_has_ended_counts_while_its_parent_goes_on(how):
    command = [sys.executable, "-c", PARENT.format(how=how, code=BURN)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        used = usage_of(parent.stdout.readline)
        parent.communicate(b"\n")

    assert 0.4 < used.cpu_s < 1.1


def test_what_a_child_did_before_does_not_count_when_it_ends():
    code = f"{BURN}\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        used = usage_of(lambda: child.communicate(b"\n"))

    assert used.cpu_s < 0.4
