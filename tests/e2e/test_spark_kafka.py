"""The rows next to Kafka's connector: medians of turns, shares of bars, the table. Kafka itself is not needed."""

import subprocess
import sys

import pytest
from benchmarks.spark_kafka import Bar, Case, Turn, summarise, table
from benchmarks.usage import Usage, usage_of


def case(*bars, is_time=False):
    return Case("all", "batch", {}, lambda _frame: None, 1000, bars, is_time)


def turns(*figures, cpu_s=0.5):
    return [Turn([float(figure)], Usage(1.0, cpu_s, 0.0)) for figure in figures]


@pytest.mark.parametrize(("bar", "share"), [(Bar(2, "kafka"), 0.75), (Bar(300), 0.5), (Bar(1, "kafka", "kafka"), 1.0)])
def test_a_rates_share_of_its_bar_is_that_of_medians(bar, share):
    found = summarise(case(bar), {"kafka": turns(90, 100, 900), "ours": turns(10, 150, 160)})

    assert found["bars"] == {str(bar): share}


def test_a_time_is_to_stay_below_its_bar():
    found = summarise(case(Bar(1.2, "kafka"), is_time=True), {"kafka": turns(100, 100), "ours": turns(240, 240)})

    assert found["bars"] == {"ours / kafka 1.2": 0.5}
    assert found["p95"]["ours"] == 240


def test_without_a_rival_there_is_no_share():
    assert summarise(case(Bar(1, "kafka")), {"ours": turns(1)})["bars"] == {}


def test_processor_time_is_that_of_a_row():
    assert summarise(case(), {"ours": turns(1, 1)})["cpu_us_per_row"] == {"ours": 500.0}


def test_the_table_has_both_and_their_ratio():
    found = summarise(case(Bar(1, "tuned")), {"kafka": turns(100), "tuned": turns(200), "ours": turns(150)})

    assert "| batch | 100 | 200 | 150 | 1.50 | 0.75 | ours / tuned 1: 0.75 |" in table([found])


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
