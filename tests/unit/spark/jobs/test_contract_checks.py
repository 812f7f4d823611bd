"""Contracts and their check; tests/spark/jobs/test_contracts.py judges bodies."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from orbitmq.errors import ConfigError
from orbitmq.spark.jobs import contract_checks as module
from orbitmq.spark.jobs.contract_checks import Contract, check_contract, load_contract

CONTRACT = Contract(Path("a.ddl"), "foo", "")


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

    monkeypatch.setattr(module, "checked", refuse)
    with pytest.raises(ConfigError) as raised:
        check_contract(Spark(), CONTRACT)
    return str(raised.value)


def test_a_schema_that_means_nothing_is_told_in_sparks_first_line(monkeypatch):
    sentence = told(monkeypatch, Refusal(None, "\n[PARSE] near ')'. SQLSTATE: 42601\n== SQL ==\nfoo"))
    assert sentence.endswith("one that Spark understands ([PARSE] near ')'.)")


def test_a_contract_is_what_its_file_says_and_knows_when_that_changes(tmp_path):
    file = tmp_path / "flight.ddl"
    file.write_text("carrier string\n")
    first = load_contract(file)
    file.write_text("carrier int\n")
    assert first.text == "carrier string"
    assert load_contract(file).digest != first.digest


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name in ("none", "bytes", "."):
        with pytest.raises(ConfigError, match="a file that can be read"):
            load_contract(tmp_path / name)
