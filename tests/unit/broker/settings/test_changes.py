"""Changes of settings while the broker runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each_case
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.settings.changes import CHANGEABLE, RunTimeSettings, with_kept_changes
from orbitmq.errors import ConfigError, Rejected

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "broker.md"


def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(broker_name="a", store_path_root_dir=tmp_path)


def test_every_key_that_may_be_changed_is_a_setting_and_no_path(tmp_path: Path) -> None:
    values = config(tmp_path).to_properties()
    assert values.keys() >= CHANGEABLE
    for key in CHANGEABLE:
        assert config(tmp_path).changed_by({key: values[key]}) == config(tmp_path)
        assert "/" not in values[key]


def test_every_key_that_may_be_changed_stands_on_the_page() -> None:
    section = PAGE.read_text().partition("## Settings that change while the broker runs")[2].partition("\n## ")[0]
    assert {key for key in CHANGEABLE if f"`{key}`" not in section} == set()


def test_a_change_is_on_the_disk_before_it_counts(tmp_path: Path) -> None:
    seen = []

    def use(new: BrokerConfig, then: object) -> None:
        seen.append(((tmp_path / "config" / "broker.properties").read_text(), new.file_reserved_time))

    settings = RunTimeSettings(lambda: config(tmp_path), use)
    settings.change({"fileReservedTime": " 5 "}, 7, lambda remark: None)
    assert seen == [("fileReservedTime=5\n", 5)]
    assert settings.version.counter == 1


def test_the_next_start_reads_what_was_kept(tmp_path: Path) -> None:
    settings = RunTimeSettings(lambda: config(tmp_path), lambda new, then: None)
    settings.change({"fileReservedTime": "5"}, 7, lambda remark: None)
    assert with_kept_changes(config(tmp_path)).file_reserved_time == 5
    given = BrokerConfig(broker_name="a", store_path_root_dir=tmp_path, broker_config_path=str(tmp_path / "b.conf"))
    assert with_kept_changes(given) is given


@each_case("storePathRootDir=/tmp", "fileReservedTime=x", "\\u12")
def test_a_file_of_changes_that_cannot_be_used_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "broker.properties").write_text(text)
    with pytest.raises(ConfigError):
        with_kept_changes(config(tmp_path))


def test_a_disk_that_refuses_leaves_everything_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("not a directory")
    settings = RunTimeSettings(lambda: config(tmp_path), lambda new, then: pytest.fail("it counts"))
    with pytest.raises(Rejected) as caught:
        settings.change({"fileReservedTime": "5"}, 7, lambda remark: None)
    assert caught.value.code == 14
    assert settings.version.counter == 0
