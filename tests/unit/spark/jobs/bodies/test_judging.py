"""The check of a contract; tests/spark/jobs/test_contracts.py judges bodies."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from orbitmq.errors import ConfigError
from orbitmq.spark.jobs.bodies import judging as module
from orbitmq.spark.jobs.bodies.contract import BodyFormat, Contract
from orbitmq.spark.jobs.bodies.judging import check_contract

CONTRACT = Contract(BodyFormat.AVRO, Path("a.avsc"), "{}", "", "")


class Spark:
    version = "4.3.0"

    def sql(self, text):
        return text


class Refusal(AnalysisException):
    def __init__(self, condition, text):
        super().__init__(text)
        self._condition = condition

    def getCondition(self):  # noqa: N802
        return self._condition


def told(monkeypatch, refusal):
    def refuse(rows, contract):
        raise refusal

    monkeypatch.setattr(module, "judged", refuse)
    with pytest.raises(ConfigError) as raised:
        check_contract(Spark(), CONTRACT)
    return str(raised.value)


def test_a_package_that_spark_does_not_have_is_named_with_its_version(monkeypatch):
    sentence = told(monkeypatch, Refusal("AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE", "Cannot call FROM_AVRO"))
    assert "jar" in sentence
    assert "spark-avro_2.13-4.3.0.jar of Maven Central" in sentence


def test_a_schema_that_means_nothing_is_told_in_sparks_first_line(monkeypatch):
    sentence = told(monkeypatch, Refusal(None, "\n[PARSE] near ')'. SQLSTATE: 42601\n== SQL ==\nfoo"))
    assert sentence.endswith("one that Spark understands ([PARSE] near ')'.)")
