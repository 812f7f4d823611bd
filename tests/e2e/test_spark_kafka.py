"""The rows next to Kafka's connector: medians of turns, shares of bars, the table. Kafka itself is not needed."""

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
