from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path

import pytest
import typer
from pyspark.errors import AnalysisException

from cases import each_case
from orbitmq.cli.jobs import running as module
from orbitmq.cli.jobs.running import (
    job_session,
    parse_conf,
    parse_directory,
    parse_local_directory,
    parse_start,
    quiet_logs,
    run_job,
    sentence,
)
from orbitmq.cli.main import main
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.output import Format
from orbitmq.errors import JobFailed
from orbitmq.model.check_result import CheckResult
from orbitmq.spark.jobs.cluster import Cluster


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a job without Spark that ends with these verdicts; return stdout and stderr."""
    monkeypatch.setattr(module, "job_session", lambda name, master, settings: nullcontext((name, master)))

    def call(*results, output=Format.TABLE):
        def work(spark, cluster, plan, screen):
            assert (spark, cluster, plan) == (("archive", "local"), Cluster("here:1"), "the plan")
            screen.step("working")
            return list(results)

        run_job("archive", "the plan", lambda *_: None, work, "here:1", None, "local", None, output)
        return capsys.readouterr()

    return call


def test_checks_are_the_result_and_steps_are_not(run):
    told = run(CheckResult(True, "rows agree"))
    assert told.out == "  ok      rows agree\n"
    assert "working" in told.err
    assert "all 1 checks hold" in told.err


def test_a_check_that_does_not_hold_is_exit_code_1(run, capsys):
    with pytest.raises(typer.Exit) as raised:
        run(CheckResult(True, "rows agree"), CheckResult(False, "offsets agree"))
    assert raised.value.exit_code == 1
    told = capsys.readouterr()
    assert "FAILED  offsets agree" in told.out
    assert "1 of 2 checks FAILED" in told.err


def test_programs_get_one_document(run):
    told = run(CheckResult(True, "rows agree"), output=Format.JSON)
    assert told.out == '{"job":"archive","checks":[{"holds":true,"claim":"rows agree"}]}\n'


def test_settings_of_spark_are_keys_and_values():
    given = ["spark.driver.memory=4g", "spark.executor.extraJavaOptions=-Da=b", "spark.driver.memory=8g"]
    assert parse_conf(given) == {"spark.driver.memory": "8g", "spark.executor.extraJavaOptions": "-Da=b"}
    assert parse_conf(None) == {}


@each_case("spark.driver.memory", "=4g", "driver.memory=4g", "")
def test_what_is_no_setting_of_spark_is_refused(wrong):
    with pytest.raises(typer.BadParameter, match=r"KEY=VALUE, as spark\.driver\.memory=4g"):
        parse_conf([wrong])


def test_the_master_is_an_option_of_its_own():
    with pytest.raises(typer.BadParameter, match="--master"):
        parse_conf(["spark.master=spark://elsewhere:7077"])


def test_the_value_of_what_is_no_setting_is_not_shown_for_it_may_be_a_secret():
    with pytest.raises(typer.BadParameter, match=r"'fs\.s3a\.secret\.key' is not KEY=VALUE") as raised:
        parse_conf(["fs.s3a.secret.key=hidden"])
    assert "hidden" not in str(raised.value)


@each_case(
    ("s3a://lake/orders/", "s3a://lake/orders"),
    ("S3A://lake/orders", "s3a://lake/orders"),
    ("hdfs://user@host:9000/a b#c%20d", "hdfs://user@host:9000/a b#c%20d"),
    ("hdfs:///orders", "hdfs:///orders"),
    ("abfs://container@account.dfs.core.windows.net", "abfs://container@account.dfs.core.windows.net"),
    ("file:///data/a%20b#c", Path("/data/a b#c")),
    ("FILE:/data/../orders", Path("/orders")),
    ("file://localhost/data", Path("/data")),
    ("./s3a:lake", Path.cwd() / "s3a:lake"),
    ("/data/a:b", Path("/data/a:b")),
)
def test_a_directory_is_a_path_or_a_uri(given, place):
    assert parse_directory(given) == place


@each_case(
    ("", "it is empty"),
    ("s3a:lake", r"'s3a:lake' is not a URI, as s3a://\.\.\.; \./s3a:lake is a directory on this disk"),
    ("file:lake", "is not a URI"),
    ("s3a://", "names no directory"),
    ("s3a:/", "names no directory"),
    ("file://host/lake", "file://host/ is another machine"),
    ("s3a://lake/12:00", "has a : in its path"),
    ("s3a://lake/*", r"it has \*, which Spark takes for a pattern"),
    ("/data/{a,b}", "it has { }"),
    ("/data/[a]?", r"it has \? \[ \]"),
    ("/data/a\\b", "which Spark takes for a pattern"),
    ("file:///data/a%2a", r"it has \*"),
)
def test_what_names_no_single_directory_is_refused(wrong, told):
    with pytest.raises(typer.BadParameter, match=told):
        parse_directory(wrong)


@each_case("key:hidden@lake/orders", "key:hid/hidden@lake/orders", "key:hidden@lake/*")
def test_a_password_in_a_uri_is_refused_and_not_shown(place):
    with pytest.raises(typer.BadParameter, match="a URI with a password") as raised:
        parse_directory(f"s3a://{place}")
    assert "hidden" not in str(raised.value)


def test_a_job_that_works_on_a_disk_alone_takes_no_uri(tmp_path):
    assert parse_local_directory(str(tmp_path)) == tmp_path
    with pytest.raises(typer.BadParameter, match="s3a://lake/traces is on no disk"):
        parse_local_directory("s3a://lake/traces")


@pytest.mark.parametrize("job", ["contracts", "replay", "trace"])
def test_these_jobs_make_no_directory_s3a_on_the_disk(job, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "contract").write_text("id int")
    words = {
        "contracts": ["orders", "s3a://lake", "--contract", "contract", "--quarantine", "bad"],
        "replay": [".", "orders", "s3a://lake"],
        "trace": ["s3a://lake"],
    }
    assert main(["job", job, *words[job]]) == ExitCode.USAGE
    assert "is on no disk" in capsys.readouterr().err


@pytest.mark.parametrize("job", ["archive", "contracts", "trace"])
def test_a_start_that_is_no_time_is_refused_before_a_directory_is_claimed(job, capsys, tmp_path):
    (tmp_path / "contract").write_text("id int")
    words = {
        "archive": ["orders", "new"],
        "contracts": ["orders", "new", "--contract", str(tmp_path / "contract"), "--quarantine", "bad"],
        "trace": ["new"],
    }
    assert main(["job", job, *words[job], "--start", "yesterday"]) == ExitCode.USAGE
    assert "Invalid value for --start: 'yesterday' is neither a time" in capsys.readouterr().err
    assert parse_start("earliest") == "earliest"
    assert parse_start("2026-11-21T12:03") == "2026-11-21T12:03"


def test_an_error_of_spark_is_one_sentence(monkeypatch):
    monkeypatch.setattr("orbitmq.spark.driver.session.local_session", lambda name, **options: Spark())
    with (
        pytest.raises(JobFailed, match=r"^\[PATH_NOT_FOUND\] no such path$"),
        job_session("archive", "local"),
    ):
        raise AnalysisException("[PATH_NOT_FOUND] no such path\nJVM stacktrace:\n\tat a.b")


def test_logs_of_pyspark_and_of_ctrl_c_are_off_the_screen_and_others_are_not(caplog):
    quiet_logs()
    logging.getLogger("SQLQueryContextLogger").error("[PATH_NOT_FOUND]")
    logging.getLogger("py4j.clientserver").error("while shutting down")
    for error in (KeyboardInterrupt(), OSError()):
        logging.getLogger().error("while sending command", exc_info=error)
    assert [record.exc_info[0] for record in caplog.records] == [OSError]


@each_case(
    ("An error occurred while calling o1.x.\n: java.io.IOException: full\n\tat a.b", "java.io.IOException: full"),
    ("", "Spark has failed"),
)
def test_the_sentence_of_an_error_is_the_one_that_says_what_failed(told, expected):
    assert sentence(told) == expected


class Spark:
    stopped = False

    def stop(self):
        self.stopped = True


def test_spark_is_stopped_however_the_job_ends(monkeypatch):
    spark, asked = Spark(), []

    def start(name, **options):
        asked.append((name, options))
        return spark

    monkeypatch.setattr("orbitmq.spark.driver.session.local_session", start)
    session = job_session("archive", "local[3]", {"spark.jars": "a.jar"})
    assert session.__enter__() is spark
    assert not spark.stopped
    interrupt = KeyboardInterrupt()
    assert not session.__exit__(type(interrupt), interrupt, None)
    assert spark.stopped
    assert asked[0][0] == "orbitmq job archive"
    assert asked[0][1]["master"] == "local[3]"
    assert asked[0][1]["settings"]["spark.jars"] == "a.jar"
    assert asked[0][1]["settings"]["spark.sql.windowExec.buffer.in.memory.threshold"] == "64"
    assert asked[0][1]["java_options"] == "", "jobs run for long: both of Java's compilers are worth their start"


@pytest.fixture
def no_spark(monkeypatch):
    """Fail where a job starts Spark."""
    monkeypatch.setattr(module, "job_session", lambda *_: pytest.fail("Spark was started"))


JOBS = [
    ("archive", "no-such-topic", "{new}"),
    ("trace", "{new}", "--trace-topic", "no-such-topic"),
    ("contracts", "no-such-topic", "{new}", "--contract", "{file}", "--quarantine", "SELF_TEST_TOPIC"),
    ("contracts", "TBW102", "{new}", "--contract", "{file}", "--quarantine", "no-such-topic"),
    ("replay", "{source}", "no-such-topic", "{new}"),
    ("dead-letters", "no-such-topic", "--inspect"),
    ("dead-letters", "no-such-topic", "{new}", "--fix", "os.path:join", "--quarantine", "TBW102"),
]


@pytest.fixture
def words(tmp_path):
    """Return a function that fills a job's words with places of the test."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "part.parquet").touch()
    (tmp_path / "file").write_text("a int")

    def fill(job):
        return [word.format(**{name: tmp_path / name for name in ("new", "file", "source", "taken")}) for word in job]

    return fill


@pytest.mark.parametrize("job", JOBS, ids=" ".join)
def test_a_missing_package_is_told_with_what_to_type(orbitmq, monkeypatch, words, job):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = orbitmq("job", *words(job))

    assert told.code
    assert "pip install 'orbitmq[spark]'" in told.err


@pytest.mark.parametrize("job", JOBS, ids=" ".join)
def test_a_topic_that_does_not_exist_is_told_before_spark_starts(orbitmq, rocketmq_session, no_spark, words, job):
    told = orbitmq("job", *words(job))

    assert told.code
    assert "no-such-topic" in told.err
    assert "starting Spark" not in told.err


@pytest.mark.parametrize("job", JOBS, ids=" ".join)
def test_a_server_that_is_not_there_is_told_before_spark_starts(orbitmq, no_spark, words, job):
    told = orbitmq("job", *words(job), "-n", "127.0.0.1:1")

    assert told.code
    assert "127.0.0.1:1" in told.err


@pytest.mark.parametrize("job", [JOBS[0], JOBS[1], JOBS[2], JOBS[4]], ids=" ".join)
def test_a_directory_of_others_is_told_before_spark_starts(orbitmq, rocketmq_session, no_spark, words, tmp_path, job):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "letter.txt").touch()
    told = orbitmq("job", *(word.replace("no-such-topic", "TBW102") for word in words(job)))

    assert told.code
    assert "which holds other files" in told.err
