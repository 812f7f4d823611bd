from __future__ import annotations

from pathlib import Path

import pytest

from cases import each_case
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

    assert (config.broker_cluster_name, config.name_servers) == ("C1", ("10.0.0.1:9876", "ns:9877"))
    assert (config.flush_disk_type, config.broker_ip1) == ("SYNC_FLUSH", "10.0.0.9")
    assert not config.auto_create_topic_enable
    assert config.store_path_root_dir == tmp_path / "store"


def test_an_override_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=10911\n")
    assert BrokerConfig.from_properties(file, listen_port=0).listen_port == 0


@each_case(
    ("brokerId", "one"),
    ("brokerId", "-1"),
    ("listenPort", "65536"),
    ("bindAddress", " "),
    ("metricsAddress", ""),
    ("flushDiskType", "SOMETIMES"),
    ("brokerRole", "LEADER"),
    ("autoCreateTopicEnable", "yes"),
    ("brokerName", "a/../../b"),
    ("brokerClusterName", ""),
    ("namesrvAddr", "localhost:x"),
    ("namesrvAddr", "h:0"),
    ("defaultTopicQueueNums", "0"),
    ("registerNameServerPeriod", "5"),
    ("fileReservedTime", "0"),
    ("deleteWhen", "24"),
    ("messageDelayLevel", "1s 5"),
    ("messageDelayLevel", "-1s"),
    ("deleteWhen", "noon"),
    ("diskMaxUsedSpaceRatio", "9"),
    ("diskSpaceCleanForciblyRatio", "101"),
    ("diskSpaceWarningLevelRatio", "34"),
    ("storePathRootDir", ""),
    ("storePathCommitLog", "/elsewhere"),
)
def test_a_bad_value_is_refused_by_the_name_of_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_mapping({key: value})
    assert caught.value.field == key


def test_a_master_has_the_id_0_whatever_its_file_says(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig.from_mapping({"brokerName": "a", "brokerId": "7", "brokerRole": "ASYNC_MASTER"})
    assert config.broker_id == 0
    assert "brokerId=7 becomes 0" in caplog.text


def test_a_missing_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig.from_properties(tmp_path / "none.conf")


def test_keys_round_trip_through_their_java_names() -> None:
    config = BrokerConfig(broker_name="b", listen_port=0, broker_ip1="10.0.0.9", auto_create_topic_enable=False)
    assert BrokerConfig.from_mapping(config.to_properties()) == config


def test_name_servers_keep_their_order_and_come_once() -> None:
    assert BrokerConfig(namesrv_addr="b:2; a;b:2;;").name_servers == ("b:2", "a:9876")
    assert BrokerConfig(namesrv_addr=" ").name_servers == ()


JAVAS_DEFAULTS = {
    "storeReplyMessageEnable": "true",
    "brokerClusterName": "DefaultCluster", "brokerId": "0", "brokerRole": "ASYNC_MASTER", "namesrvAddr": "",
    "registerNameServerPeriod": "30000", "listenPort": "10911", "serverChannelMaxIdleTimeSeconds": "120",
    "flushDiskType": "ASYNC_FLUSH", "flushIntervalCommitLog": "500", "syncFlushTimeout": "5000",
    "mappedFileSizeCommitLog": "1073741824", "mappedFileSizeConsumeQueue": "6000000", "maxMessageSize": "4194304",
    "flushConsumerOffsetInterval": "5000", "autoCreateTopicEnable": "true", "autoCreateSubscriptionGroup": "true",
    "defaultTopicQueueNums": "8", "clusterTopicEnable": "true", "brokerTopicEnable": "true",
    "traceTopicEnable": "false", "msgTraceTopicName": "RMQ_SYS_TRACE_TOPIC", "brokerPermission": "6",
    "notifyConsumerIdsChangedEnable": "true", "longPollingEnable": "true", "shortPollingTimeMills": "1000",
    "brokerFastFailureEnable": "true", "waitTimeMillsInSendQueue": "200", "regionId": "DefaultRegion", "traceOn": "true", "enabledAppendPropCRC": "false",
}  # fmt: skip


OURS = {
    "registerBrokerTimeoutMills": "6000", "enableSplitRegistration": "false", "splitRegistrationSize": "800",
    "heartbeatEnable": "false", "brokerHeartbeatInterval": "1000", "brokerNotActiveTimeoutMillis": "10000",
    "channelExpiredTimeout": "120000", "rebalanceLockMaxLiveTime": "60000",
    "maxTransferCountOnMessageInMemory": "8192", "maxTransferBytesOnMessageInMemory": "4194304",
    "parkedPullsMax": "100000", "parkedPullsSizeMax": "134217728", "acceptLogEnd": "-1", "connectionsPerAddressMax": "0", "requestsPerSecondMax": "0",
    "frameDeadlineSeconds": "30", "partialFramesMax": "67108864", "writeBufferMax": "67108864",
    "asyncFlushWaitingMax": "536870912", "waitingAnswersMax": "67108864", "serverSocketBacklog": "1024", "topicsMax": "200000", "groupsMax": "200000",
    "largeBatchesMax": "16", "queueEntriesMax": "67108864", "replyPushesMax": "10000", "replyPushesSizeMax": "67108864", "vipChannelEnable": "true",
}  # fmt: skip


@each_case(*JAVAS_DEFAULTS.items(), *OURS.items())
def test_what_is_not_set_is_as_in_java_or_as_the_manual_says(key: str, default: str) -> None:
    assert BrokerConfig(broker_name="a").to_properties()[key] == default


LIMITS = {
    "brokerId": (0, 2**63 - 1), "registerNameServerPeriod": (10_000, 60_000),
    "registerBrokerTimeoutMills": (100, 60_000), "splitRegistrationSize": (2, 1_000_000),
    "brokerHeartbeatInterval": (100, 60_000), "brokerNotActiveTimeoutMillis": (500, 600_000),
    "listenPort": (0, 65_535), "serverChannelMaxIdleTimeSeconds": (0, 86_400),
    "flushIntervalCommitLog": (1, 60_000), "syncFlushTimeout": (100, 600_000),
    "mappedFileSizeCommitLog": (65_536, 2**31 - 1), "mappedFileSizeConsumeQueue": (20, 2**30),
    "maxMessageSize": (1, 16_646_144), "flushConsumerOffsetInterval": (100, 600_000),
    "defaultTopicQueueNums": (1, 1_024), "brokerPermission": (0, 6), "channelExpiredTimeout": (1_000, 3_600_000),
    "rebalanceLockMaxLiveTime": (1_000, 3_600_000), "maxTransferCountOnMessageInMemory": (1, 1_000_000),
    "maxTransferBytesOnMessageInMemory": (1_024, 12_582_912), "shortPollingTimeMills": (10, 60_000),
    "parkedPullsMax": (0, 10_000_000), "parkedPullsSizeMax": (0, 2**40), "connectionsPerAddressMax": (0, 10_000_000),
    "requestsPerSecondMax": (0, 10_000_000), "frameDeadlineSeconds": (0, 3_600), "partialFramesMax": (0, 2**40),
    "writeBufferMax": (0, 2**31 - 1), "serverSocketBacklog": (1, 65_535), "topicsMax": (100, 10_000_000),
    "waitingAnswersMax": (0, 2**40), "waitTimeMillsInSendQueue": (1, 600_000),
    "asyncFlushWaitingMax": (1_048_576, 2**36),
    "groupsMax": (100, 10_000_000), "largeBatchesMax": (1, 10_000), "queueEntriesMax": (1_048_576, 2**36), "replyPushesMax": (4, 1_000_000), "replyPushesSizeMax": (1_048_576, 2**40),
}  # fmt: skip


@each_case(*LIMITS.items())
def test_a_number_is_refused_beyond_its_limits_and_at_them_it_is_not(key: str, limits: tuple[int, int]) -> None:
    for value in limits:
        BrokerConfig.from_mapping({key: str(value)})
    for value in (limits[0] - 1, limits[1] + 1):
        with pytest.raises(ConfigError) as caught:
            BrokerConfig.from_mapping({key: str(value)})
        assert caught.value.field == key


def test_paths_are_paths_and_the_home_of_the_user_is_found() -> None:
    config = BrokerConfig.from_mapping({"aclFile": "~/accounts.json", "storePathRootDir": "store"})
    assert config.acl_file == Path.home() / "accounts.json"
    assert config.store_path_root_dir == Path("store")


def test_delay_levels_are_what_the_setting_says() -> None:
    assert len(BrokerConfig().delay_levels) == 18
    assert BrokerConfig.from_mapping({"messageDelayLevel": "1s 1d "}).delay_levels.delays_ms == (1_000, 86_400_000)
