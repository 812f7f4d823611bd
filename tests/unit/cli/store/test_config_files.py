"""The JSON files of config/, as the broker would read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.cli.store.config_files import ConfigCheck
from orbitmq.store.inspection.issues import Severity

TOPICS = '{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{"orders":{"topicName":"orders"}}}'


def found(directory: Path, **ends: int) -> dict[str, str]:
    check = ConfigCheck(directory)
    table = {(topic, 0): (0, end) for topic, end in ends.items()}
    return {
        issue.path: issue.what
        for issue in check.issues(table, has_messages=bool(ends))
        if issue.severity is Severity.WRONG
    }


def test_a_store_without_messages_needs_no_tables(tmp_path: Path) -> None:
    assert found(tmp_path) == {}
    assert found(tmp_path / "missing") == {}
    assert ConfigCheck(tmp_path).topics is None


def test_topics_are_known_by_their_table(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text(TOPICS)
    assert set(ConfigCheck(tmp_path).topics or ()) == {"orders"}
    assert found(tmp_path, orders=1, SCHEDULE_TOPIC_XXXX=1, **{"%LMQ%x": 1}) == {}
    assert set(found(tmp_path, orders=1, bills=1)) == {"config/topics.json"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n",
        b"\0" * 50,
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"topicConfigTable":',
        b"[]",
        b"7",
        b'{"topicConfigTable":[1]}',
    ],
    ids=["empty", "blank", "zeros", "no text", "deep", "cut", "list", "number", "other shape"],
)
@pytest.mark.parametrize(
    "name",
    [
        "topics.json",
        "consumerOffset.json",
        "subscriptionGroup.json",
        "delayOffset.json",
        "messageRequestMode.json",
        "consumerOrderInfo.json",
        "topics.json.bak",
    ],
)
def test_what_cannot_be_a_table_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    if content == b'{"topicConfigTable":[1]}' and not name.startswith("topics"):
        content = b'{"offsetTable":[1],"subscriptionGroupTable":[1],"messageRequestModeMap":[1],"table":[1]}'
    (tmp_path / name).write_bytes(content)
    assert found(tmp_path)[f"config/{name}"].startswith("cannot be read")


def test_tables_of_java_that_are_not_known_must_be_json(tmp_path: Path) -> None:
    (tmp_path / "consumerFilter.json").write_text('{"filterDataByTopic":{}}')
    (tmp_path / "timercheck").write_bytes(b"\0")
    (tmp_path / "rocksdb").mkdir()
    assert found(tmp_path) == {}
    (tmp_path / "consumerFilter.json").write_text('{"filterDataByTopic"')
    assert set(found(tmp_path)) == {"config/consumerFilter.json"}


def test_a_table_that_the_store_has_had_is_missed(tmp_path: Path) -> None:
    directory = tmp_path / "config"
    directory.mkdir()
    (tmp_path / "tables").write_text("topics.json\nmessageRequestMode.json\nanother.json\n")
    (directory / "topics.json.bak").write_text(TOPICS)
    assert found(directory) == {
        "config/topics.json": "is missing",
        "config/messageRequestMode.json": "is missing, and so is its .bak",
    }
    (tmp_path / "tables").unlink()
    (tmp_path / "tables").mkdir()
    assert set(found(directory)) == {"config/topics.json"}


@pytest.mark.parametrize(("name", "what_comes"), [("topics.json", "reads the .bak"), ("auth.json", "is refused")])
@pytest.mark.parametrize("damage", [None, "?"])
def test_a_remedy_says_what_the_next_start_does_with_a_backup(
    tmp_path: Path, name: str, what_comes: str, damage: str | None
) -> None:
    (tmp_path / f"{name}.bak").write_text("{}")
    if damage is not None:
        (tmp_path / name).write_text(damage)
    remedies = [issue.remedy for issue in ConfigCheck(tmp_path).issues({}, has_messages=False)]
    assert [what_comes in (remedy or "") for remedy in remedies if "next start" in (remedy or "")] == [True]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "topics.json").symlink_to("/etc/passwd")
    assert set(found(tmp_path)) == {"config/topics.json"}


def test_what_writes_have_left_is_worth_knowing(tmp_path: Path) -> None:
    for name in ("topics.json.tmp", "topics.json.bak.tmp", "topics.json.damaged-1"):
        (tmp_path / name).write_bytes(b"{")
    notes = list(ConfigCheck(tmp_path).issues({}, has_messages=False))
    assert {issue.severity for issue in notes} == {Severity.NOTE}
    assert len(notes) == 3
