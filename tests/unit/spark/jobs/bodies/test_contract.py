from __future__ import annotations

import pytest

from orbitmq.errors import ConfigError
from orbitmq.spark.jobs.bodies.contract import BodyFormat, load_contract


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
