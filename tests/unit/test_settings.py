"""Claims about settings as RocketMQ spells them: keys, texts, ranges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.settings import (
    check_values,
    fields_by_key,
    format_values,
    java_key,
    parse_addresses,
    parse_value,
    read_properties,
)


@dataclass
class Settings:
    broker_ip1: str = "a"
    enabled_append_prop_crc: bool = True
    listen_port: int = 7


@each_case(
    ("port", "port"),
    ("scan_not_active_broker_interval", "scanNotActiveBrokerInterval"),
    ("broker_ip1", "brokerIP1"),
    ("enabled_append_prop_crc", "enabledAppendPropCRC"),
)
def test_a_field_has_rocketmqs_key(name: str, key: str):
    assert java_key(name) == key


def test_values_are_written_as_java_writes_them_and_read_again():
    written = format_values(Settings())
    assert written == {"brokerIP1": "a", "enabledAppendPropCRC": "true", "listenPort": "7"}
    fields = fields_by_key(Settings)
    again = {fields[key].name: parse_value(key, f" {written[key]} ", fields[key].type) for key in written}
    assert Settings(**again) == Settings()


def test_a_path_may_begin_at_home():
    assert parse_value("p", "~/x", "Path") == Path.home() / "x"


@each_case(("int", ""), ("int", "1_000"), ("int", "\u0661"), ("int", "9" * 5000), ("bool", "yes"), ("Path", " "))
def test_a_text_of_another_kind_is_refused_by_its_key(kind: str, text: str):
    with pytest.raises(ConfigError, match=r"^k: "):
        parse_value("k", text, kind)


@each_case(Settings(listen_port=-1), Settings(listen_port=True), Settings(broker_ip1="a\nlistenPort=1"))
def test_a_value_out_of_its_range_is_refused_by_its_key(settings: Settings):
    with pytest.raises(ConfigError, match=r"listenPort|brokerIP1"):
        check_values(settings, {"listen_port": (0, 9)})


def test_addresses_are_refused_by_the_key_they_stand_under():
    assert parse_addresses("k", "a:1; b") == ("a:1", "b:9876")
    assert parse_addresses("k", " ") == ()
    with pytest.raises(ConfigError, match=r"^k: "):
        parse_addresses("k", "a:x")


@pytest.mark.parametrize("content", [None, b"a=\xff", b"a=\\uZZ"])
def test_a_file_that_cannot_be_read_is_named(content: bytes | None, tmp_path: Path):
    path = tmp_path / "n.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"n\.properties"):
        read_properties(path)
