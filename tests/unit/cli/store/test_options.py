"""Settings of the broker whose store is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.cli.store.options import read_config
from orbitmq.errors import ConfigError


def test_settings_are_the_brokers_own(tmp_path: Path) -> None:
    assert read_config(None) is None
    path = tmp_path / "broker.conf"
    path.write_text("mappedFileSizeCommitLog=65536\n")
    found = read_config(path)
    assert found is not None
    assert found.mapped_file_size_commit_log == 65536
    path.write_text("mappedFileSizeCommitLog=x\n")
    with pytest.raises(ConfigError, match="mappedFileSizeCommitLog"):
        read_config(path)
