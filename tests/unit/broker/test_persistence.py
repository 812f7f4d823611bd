from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.persistence import ConfigFiles, format_offsets, parse_offsets
from orbitmq.broker.topics.system_topics import system_topics
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import HeaderError
from orbitmq.files import replace_file
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.groups import GroupConfig


def test_a_topic_table_survives_a_restart(tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path)
    topics = TopicTable()
    topics.add_missing(system_topics(BrokerConfig(broker_name="a")), now_ms=1)
    topics.update(TopicConfig(topic="t", attributes={"+message.type": "FIFO"}, order=True, perm=4), now_ms=2)

    files.save_topics(topics)
    loaded = files.load_topics(auto_create_enable=True)

    assert loaded.all == topics.all
    assert loaded.version == topics.version


def test_a_first_start_finds_nothing_and_that_is_fine(tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path / "new")
    assert not files.load_topics(auto_create_enable=True).all
    assert not files.load_offsets().all
    assert "TOOLS_CONSUMER" in files.load_groups(auto_create_enable=True).all


def test_queue_ids_stand_bare_as_java_writes_them_and_both_forms_are_read() -> None:
    offsets = GroupOffsets({"t@g": {0: 123, 11: 4}})
    assert b'"t@g":{0:123,11:4}' in format_offsets(offsets)
    assert parse_offsets(format_offsets(offsets)).all == offsets.all
    assert parse_offsets(b'{\n\t"offsetTable":{"t@g":{"0":123,\n"11":4}\n\t}\n}').all == offsets.all
    assert parse_offsets(b'{"dataVersion":{"counter":3},"groupTopicMap":{},"offsetTable":{}}').version.counter == 3


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"offsetTable":{"t@g":{"x":1}}}', b'{"offsetTable":[1]}', b"{"])
def test_a_damaged_offset_file_is_refused(damage: bytes) -> None:
    with pytest.raises(HeaderError):
        parse_offsets(damage)


def test_group_settings_survive_with_what_a_newer_broker_wrote(tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path)
    replace_file(
        files.groups_path,
        b'{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":5},"forbiddenTable":{"g":{"t":2}},'
        b'"subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":3,"consumeEnable":false,'
        b'"groupRetryPolicy":{"type":"CUSTOMIZED"}}}}',
    )
    table = files.load_groups(auto_create_enable=True)
    files.save_groups(table)
    again = files.load_groups(auto_create_enable=True)

    assert again.all["g"] == GroupConfig(
        group="g", retry_times_max=3, consume_enable=False, extra={
            "attributes": {}, "groupRetryPolicy": {"type": "CUSTOMIZED"}
        }
    )  # fmt: skip
    assert again.forbidden == {"g": {"t": 2}}
    assert again.version.counter == 7
