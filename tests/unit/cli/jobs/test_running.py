from __future__ import annotations

from contextlib import nullcontext

import pytest
import typer

from orbitmq.cli.jobs import running as module
from orbitmq.cli.jobs.running import job_session, parse_conf, run_job
from orbitmq.cli.terminal.output import Format
from orbitmq.errors import ConfigError
from orbitmq.model.check_result import CheckResult


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a job without Spark that ends with these verdicts; return stdout and stderr."""
    monkeypatch.setattr(module, "job_session", lambda name, master, settings: nullcontext((name, master)))

    def call(*results, output=Format.TABLE):
        def work(spark, screen):
            assert spark == ("archive", "local")
            screen.step("working")
            return list(results)

        run_job("archive", "local", output, work)
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


@pytest.mark.parametrize("wrong", ["spark.driver.memory", "=4g", "driver.memory=4g", ""])
def test_what_is_no_setting_of_spark_is_refused(wrong):
    with pytest.raises(typer.BadParameter, match=r"KEY=VALUE, as spark\.driver\.memory=4g"):
        parse_conf([wrong])


def test_the_master_is_an_option_of_its_own():
    with pytest.raises(typer.BadParameter, match="--master"):
        parse_conf(["spark.master=spark://elsewhere:7077"])


class Spark:
    stopped = False

    def stop(self):
        self.stopped = True


def test_a_missing_package_is_told_with_what_to_type(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'orbitmq\[spark\]'"), job_session("archive", "local"):
        pass


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
