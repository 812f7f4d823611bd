"""The benchmarks must not rot: a sanity run of ours alone, without Java, in seconds."""

import json
import re
import shutil
import sys
from collections.abc import Iterator

import pytest
from benchmarks import figures, readme, report, servers
from benchmarks.__main__ import QUICK_ROWS, main
from benchmarks.load import BenchmarkError
from benchmarks.measure import is_warm, summarise
from benchmarks.rows import Bar
from benchmarks.waiting_sends import send_together

from cases import each_case
from orbitmq import Producer
from orbitmq.testing import LocalCluster

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the load generator needs Linux's epoll"),
    pytest.mark.skipif(
        not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler for the load generator"
    ),
]


@pytest.fixture(scope="module", autouse=True)
def servers_folder() -> Iterator[None]:
    """Remove the servers' folder with the last test: by itself it goes with the process."""
    yield
    if servers._folders.cache_info().currsize:
        shutil.rmtree(servers._folders(), ignore_errors=True)
        servers._folders.cache_clear()


@pytest.mark.proof
def test_a_quick_run_measures_every_kind_of_row_with_good_answers_only(capsys):
    assert main(["--quick"]) == 0

    printed = capsys.readouterr().out
    for name in QUICK_ROWS:
        assert f"  {name} " in printed
    assert "BAD" not in printed


def test_a_row_that_fails_does_not_keep_others_from_being_measured(capsys, monkeypatch):
    def fail(_peer, _plan):
        raise BenchmarkError("it did not start")

    monkeypatch.setitem(figures.MEASURES, "start-nameserver", fail)

    assert main(["--quick", "--only", "start-nameserver", "--only", "memory-nameserver-idle"]) == 2
    printed = capsys.readouterr()
    assert "| NameServer: resident memory, idle |" in printed.out
    assert "start-nameserver failed" in printed.err


def test_a_row_that_does_not_exist_is_named(capsys):
    assert main(["--only", "no-such-row"]) == 2
    assert "no-such-row" in capsys.readouterr().err


def run(per_second, *, bad=0, saturated="server"):
    figures = dict.fromkeys(("p50_us", "p99_us", "server_cpu", "client_cpu", "others_cpu", "rss_kb"), 1.0)
    return figures | {"per_second": per_second, "bad": bad, "saturated": saturated}


@each_case(
    ([], False), ([100, 101, 100], False), ([100, 101, 100, 104], True), ([100, 100, 120, 150], False),
    ([100, 160, 150, 158, 161], True), ([100, 160, 150, 158, 175], False),
)  # fmt: skip
def test_a_jvm_is_warm_when_three_looks_are_hardly_better_than_all_before(rates, warm):
    assert is_warm(rates) == warm


def test_the_median_counts_and_bad_answers_add_up():
    summary = summarise([run(10), run(30, bad=2), run(20, bad=1, saturated="client")], "per_second")

    assert (summary["value"], summary["bad"], summary["saturated"]) == (20, 3, "server")


@pytest.mark.parametrize(("ours", "p99_us", "reached"), [(30, 3, True), (29, 3, False), (30, 4, False)])
def test_a_bar_holds_for_rate_and_latency(ours, p99_us, reached):
    java = {"value": 10, "p99_us": 10}

    assert report.judge(Bar(3, p99_ratio=1 / 3), java, {"value": ours, "p99_us": p99_us}) is reached


@pytest.mark.parametrize(
    ("ours", "bad", "reached", "measured"),
    [
        ({"value": 1e9, "p99_us": 1}, 0, True, "1 of 1 bars reached, 0 bad answers"),
        ({"value": 1e9, "p99_us": 1}, 2, False, "1 of 1 bars reached, 2 bad answers"),
        ({"value": 1, "p99_us": 1}, 0, False, "0 of 1 bars reached, 0 bad answers; missed: route-k8-50x1"),
        (
            {"value": 1e9, "p99_us": 1, "others_cpu": 1},
            0,
            False,
            "0 of 1 bars reached, 0 bad answers; disturbed: route-k8-50x1",
        ),
    ],
)
def test_bars_are_reached_when_every_row_reaches_its_own_undisturbed(ours, bad, reached, measured):
    found = report.summary({"route-k8-50x1": {"java": {"value": 10, "p99_us": 10}, "ours": ours}}, bad)

    assert (found["reached"], found["measured"]) == (reached, measured)


def test_kept_figures_are_merged_row_by_row(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.save({"a": {"ours": {"value": 1}}, "b": {"ours": {"value": 2}}}, {}, keep=True)
    latest = report.save({"b": {"ours": {"value": 3}}}, {}, keep=True)

    rows = json.loads(latest.read_text())["rows"]
    assert (rows["a"]["ours"]["value"], rows["b"]["ours"]["value"]) == (1, 3)


def test_a_row_that_was_asked_for_and_not_measured_reaches_nothing():
    found = report.summary({"start-nameserver": {"ours": {"value": 1}}}, 0, ["start-nameserver", "start-up"])

    assert not found["reached"]
    assert found["measured"] == "1 of 2 bars reached, 0 bad answers; not measured: start-up"


def test_each_kept_row_has_its_date_and_its_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    latest = report.save({"a": {"ours": {"value": 1}}}, {}, keep=True)

    row = json.loads(latest.read_text())["rows"]["a"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["at"])
    assert re.fullmatch(r"[0-9a-f]{7,}\+?|unknown", row["commit"])


def test_without_git_the_commit_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "ROOT", tmp_path)

    assert report.describe_commit() == "unknown"


def test_a_disturbed_row_is_not_judged_and_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    disturbed = {"ours": summarise([run(10) | {"others_cpu": 0.9}], "per_second")}
    assert report.is_disturbed(disturbed)

    assert "say little" in report.table({"send-async-100-16x1": disturbed})
    latest = report.save({"send-async-100-16x1": disturbed}, {}, keep=True)

    assert json.loads(latest.read_text())["rows"] == {}


def kept(**rows):
    machine = {"processor": "AMD EPYC", "cores": 2, "python": "3.11.2, the system's build"}
    stamps = ({"at": f"2026-11-2{number}", "commit": f"abc{number}"} for number in range(len(rows)))
    named = ((name.replace("_", "-"), result) for name, result in rows.items())
    return {
        "machine": machine,
        "rows": {name: result | stamp for (name, result), stamp in zip(named, stamps, strict=True)},
    }


def test_the_readme_has_a_line_for_each_kept_row_with_its_bar():
    start, memory = ({"java": {"value": java}, "ours": {"value": ours}} for java, ours in ((3100, 120), (230, 41)))
    text = readme.section(kept(start_nameserver=start, memory_nameserver_idle=memory))

    assert text.startswith(
        "Measured 20 November 2026 to 21 November 2026; commits abc0, abc1; AMD EPYC with 2 cores; Python 3.11.2"
    )
    assert "| NameServer: start to first answer | 3.1 s | 120 ms | 1/25.8 | <= 150 ms: reached |" in text
    assert "| NameServer: resident memory, idle | 230 MB | 41 MB | 1/5.6 | <= 40 MB: missed |" in text
    assert "Kafka" not in text


def test_the_readme_has_a_table_of_spark_next_to_kafka():
    peers = {"kafka": 51_000, "tuned": 84_000, "ours": 81_000, "local": 130_000, "floor": 300_000}
    text = readme.section(kept(spark_all={peer: {"value": value} for peer, value in peers.items()}))

    line = "| 51.0 k rows/s | 84.0 k rows/s | 81.0 k rows/s | 1.59 | 0.96 | local 130 k rows/s |"
    assert f"{line} >= 1.5 x Kafka: reached; local >= 1.5 x tuned: reached |" in text


def test_only_what_is_between_the_comments_is_written():
    page = f"before\n{readme.BEGIN}old\n{readme.END}behind\n"
    once = readme.rewritten(page, readme.section(kept()))

    assert once.startswith(f"before\n{readme.BEGIN}Measured")
    assert once.endswith(f"\n{readme.END}behind\n")
    assert readme.rewritten(once, readme.section(kept())) == once


def test_a_page_without_the_comments_is_not_written():
    with pytest.raises(BenchmarkError, match="no place for its table"):
        readme.rewritten("a page", readme.section(kept()))


@pytest.mark.parametrize(("ours", "p99_us", "reached"), [(3, 15, True), (4, 15, False), (3, 16, False)])
def test_a_bar_holds_for_what_is_to_stay_small(ours, p99_us, reached):
    java = {"value": 10, "p99_us": 10}

    assert report.judge(Bar(at_most_ratio=1 / 3, p99_ratio=1.5), java, {"value": ours, "p99_us": p99_us}) is reached


def test_rows_are_chosen_by_name_or_by_beginning(capsys):
    options = ["--quick", "--only", "send-sync-100-1x1", "--only", "memory-nameserver-i"]

    assert main(options) == 0
    printed = capsys.readouterr().out
    assert "send-sync-100-1x1 " in printed
    assert "memory-nameserver-idle" in printed
    assert "send-sync-100-1x16" not in printed


async def test_thousands_of_concurrent_sends_all_arrive():
    async with (
        LocalCluster() as cluster,
        Producer("concurrent", cluster.name_servers, send_timeout_ms=600_000) as producer,
    ):
        found = await send_together(producer, 2_000)
    assert (found.failed, found.sent) == (0, 2_000)
