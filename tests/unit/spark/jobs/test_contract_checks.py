"""Contracts and their check; tests/spark/jobs/test_contracts.py judges bodies."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from orbitmq.errors import ConfigError
from orbitmq.spark.jobs import contract_checks as module
from orbitmq.spark.jobs.contract_checks import BodyFormat, Contract, check_contract, load_contract

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

    monkeypatch.setattr(module, "checked", refuse)
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


def test_a_contract_is_what_its_file_says_and_knows_when_that_changes(tmp_path):
    file = tmp_path / "flight.ddl"
    file.write_text("carrier string\n")
    first = load_contract(BodyFormat.JSON, file)
    file.write_text("carrier int\n")
    assert first.text == "carrier string"
    assert load_contract(BodyFormat.JSON, file).digest != first.digest


def test_a_descriptor_set_is_left_to_spark(tmp_path):
    file = tmp_path / "flight.desc"
    file.write_bytes(b"\xff\x00")
    contract = load_contract(BodyFormat.PROTOBUF, file, "flights.Flight")
    assert (contract.text, contract.message, contract.file) == ("", "flights.Flight", file)


def test_a_message_is_named_for_protobuf_and_for_nothing_else(tmp_path):
    for body_format, message in ((BodyFormat.PROTOBUF, ""), (BodyFormat.JSON, "a.B")):
        with pytest.raises(ConfigError, match="message"):
            load_contract(body_format, tmp_path, message)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name in ("none", "bytes", "."):
        with pytest.raises(ConfigError, match="a file that can be read"):
            load_contract(BodyFormat.JSON, tmp_path / name)
