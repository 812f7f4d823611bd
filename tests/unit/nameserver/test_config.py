"""Claims about the settings: RocketMQ's keys, ranges, and errors that name key, value and what is allowed."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from cases import each_case
from golden import golden
from orbitmq.errors import ConfigError
from orbitmq.nameserver import config
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.settings import java_key
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import FrameDecoder

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "nameserver.md"


def test_defaults_are_those_of_5_3_3():
    properties = NameServerConfig().to_properties()
    for key, value in {
        "listenPort": "9876",
        "bindAddress": "0.0.0.0",
        "scanNotActiveBrokerInterval": "5000",
        "orderMessageEnable": "false",
        "returnOrderTopicConfigToBroker": "true",
        "supportActingMaster": "false",
        "enableAllTopicList": "true",
        "needWaitForService": "false",
        "waitSecondsForService": "45",
        "productEnvName": "center",
        "serverChannelMaxIdleTimeSeconds": "120",
        "configBlackList": "configBlackList;configStorePath;kvConfigPath",
    }.items():
        assert properties[key] == value


def test_a_properties_file_is_read_and_is_where_changes_are_saved(tmp_path: Path):
    path = tmp_path / "n.properties"
    path.write_text("# texts\nscanNotActiveBrokerInterval = 10000\norderMessageEnable=TRUE\nserverWorkerThreads=8\n")
    config = NameServerConfig.from_properties(path, listen_port=0)
    assert config.scan_not_active_broker_interval == 10_000
    assert config.order_message_enable
    assert (config.listen_port, config.config_store_path) == (0, path)


def test_what_is_written_is_read_again(tmp_path: Path):
    config = NameServerConfig(kv_config_path=tmp_path / "kv", cluster_test=True, wait_seconds_for_service=3)
    assert NameServerConfig.from_mapping(config.to_properties()) == config


def test_an_unknown_key_is_named_and_one_of_javas_threads_is_not(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        NameServerConfig.from_mapping({"typo": "1", "defaultThreadPoolNums": "16", "rocketmqHome": "/opt"})
    assert [record.message for record in caplog.records] == ["the setting typo is not known and has no effect"]
    with pytest.raises(ConfigError, match="listenPort, perhaps"):
        NameServerConfig.from_mapping({"listenPrt": "1"}, strict=True)


def test_a_file_with_every_setting_of_javas_is_taken_without_a_word(caplog: pytest.LogCaptureFixture):
    (answer,) = FrameDecoder().feed(golden("319-get-namesrv-config-answer").data)
    java = bytes(decode_command(answer).body).decode()
    properties = dict(line.split("=", 1) for line in java.splitlines())
    with caplog.at_level(logging.WARNING):
        config = NameServerConfig.from_mapping(properties)
    assert len(properties) == 40
    assert caplog.records == []
    assert {key: value for key, value in config.to_properties().items() if properties.get(key, value) != value} == {}


def test_a_controllers_settings_are_known_where_one_runs_in_the_process(caplog: pytest.LogCaptureFixture):
    properties = {"enableControllerInNamesrv": "true", "controllerDLegerSelfId": "n0"}
    assert NameServerConfig.from_mapping(properties, strict=True).enable_controller_in_namesrv
    with pytest.raises(ConfigError, match="controllerDLegerSelfId"):
        NameServerConfig.from_mapping({**properties, "enableControllerInNamesrv": "false"}, strict=True)


def test_the_reference_names_every_setting_with_its_default_and_range():
    page = REFERENCE.read_text(encoding="utf-8").split("## Metrics")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", page, re.MULTILINE))
    assert rows.keys() == NameServerConfig().to_properties().keys()
    for key, value in NameServerConfig().to_properties().items():
        default = re.match(r"`(.*?)` ", rows[key])
        assert (default[1] if default else "") == value.replace(str(Path.home()), "~"), key
    for name, (low, high) in config._RANGES.items():
        assert f"| {low} to {high} " in rows[java_key(name)], name
    assert [key for key in config.WITHOUT_EFFECT if f"`{key}`" not in page] == []


@each_case(
    ("listenPort", "65536", "0 to 65535"),
    ("listenPort", "x", "a whole number"),
    ("listenPort", "9" * 30, "0 to 65535"),
    ("scanNotActiveBrokerInterval", "0", "10 to 600000"),
    ("orderMessageEnable", "yes", "true or false"),
    ("productEnvName", "a\u0007b", "printable"),
    ("kvConfigPath", " ", "a path"),
    ("bindAddress", "", "an address"),
    ("metricsAddress", " ", "an address"),
    ("shadowAddress", "h:0", "host:port"),
    ("shadowAddress", "a:1;b:1", "one host:port"),
    ("productNameServers", "a:1;b:x", "host:port"),
)
def test_a_bad_value_is_refused_with_key_value_and_range(key: str, value: str, allowed: str):
    with pytest.raises(ConfigError, match=key) as refused:
        NameServerConfig.from_mapping({key: value})
    assert allowed in str(refused.value)


def test_a_missing_or_broken_file_is_an_error_with_its_name(tmp_path: Path):
    with pytest.raises(ConfigError, match="nowhere"):
        NameServerConfig.from_properties(tmp_path / "nowhere")
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="bad"):
        NameServerConfig.from_properties(tmp_path / "bad")


def test_paths_of_the_home_folder_are_resolved():
    assert NameServerConfig(kv_config_path=Path("~/x")).kv_config_path == Path.home() / "x"


def test_a_change_leaves_everything_else_alone():
    changed = NameServerConfig(listen_port=7).changed_by({"enableTopicList": "false", "unknown": "1"})
    assert (changed.enable_topic_list, changed.listen_port) == (False, 7)
