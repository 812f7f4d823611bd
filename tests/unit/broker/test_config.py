from __future__ import annotations

import logging
from pathlib import Path

import pytest

from orbitmq.broker.config import BrokerConfig
from orbitmq.errors import ConfigError


def test_a_broker_conf_as_rocketmq_ships_it_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        "brokerClusterName = C1\nbrokerName = broker-a\nbrokerId = 0\nnamesrvAddr=10.0.0.1:9876;ns:9877\n"
        "flushDiskType = SYNC_FLUSH\nlistenPort=0\nautoCreateTopicEnable=false\n# comment\nbrokerIP1=10.0.0.9\n"
        f"storePathRootDir={tmp_path}/store\nstorePathCommitLog={tmp_path}/store/commitlog\n"
    )

    config = BrokerConfig.from_properties(file)

    assert config.broker_cluster_name == "C1"
    assert config.name_servers == ("10.0.0.1:9876", "ns:9877")
    assert config.flush_disk_type == "SYNC_FLUSH"
    assert config.broker_ip1 == "10.0.0.9"
    assert not config.auto_create_topic_enable
    assert config.store_path_root_dir == tmp_path / "store"


def test_an_override_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=10911\n")
    assert BrokerConfig.from_properties(file, listen_port=0).listen_port == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("brokerId", "one"),
        ("brokerId", "-1"),
        ("listenPort", "65536"),
        ("bindAddress", " "),
        ("flushDiskType", "SOMETIMES"),
        ("brokerRole", "SLAVE"),
        ("autoCreateTopicEnable", "yes"),
        ("brokerName", "a/../../b"),
        ("brokerClusterName", ""),
        ("namesrvAddr", "localhost:x"),
        ("namesrvAddr", "h:0"),
        ("defaultTopicQueueNums", "0"),
        ("registerNameServerPeriod", "5"),
        ("storePathRootDir", ""),
        ("storePathCommitLog", "/elsewhere"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_mapping({key: value})
    assert caught.value.field == key


def test_an_unknown_key_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        BrokerConfig.from_mapping({"brokerNmae": "x"})
    assert "brokerNmae" in caplog.text


def test_a_missing_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig.from_properties(tmp_path / "none.conf")


def test_keys_round_trip_through_their_java_names() -> None:
    config = BrokerConfig(broker_name="b", listen_port=0, broker_ip1="10.0.0.9", auto_create_topic_enable=False)
    assert BrokerConfig.from_mapping(config.to_properties()) == config


def test_name_servers_keep_their_order_and_come_once() -> None:
    assert BrokerConfig(namesrv_addr="b:2; a;b:2;;").name_servers == ("b:2", "a:9876")
    assert BrokerConfig(namesrv_addr=" ").name_servers == ()
