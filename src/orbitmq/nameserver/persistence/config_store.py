"""The settings file: what was changed from afar, saved before it counts.

Source: docs/formats/config_files.md; Java Configuration.update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from orbitmq.files import replace_file
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.persistence.group_commit import Done, GroupCommit

Properties = Mapping[str, str]


class ConfigStore:
    """Changes the settings in use: on disk first, visible and answered afterwards.

    When the disk refuses, the settings stay as they are.

    Args:
        current: returns the settings in use.
        use: is given the settings that count from now on.
    """

    def __init__(self, current: Callable[[], NameServerConfig], use: Callable[[NameServerConfig], None]) -> None:
        self._current = current
        self._use = use
        self._commits = GroupCommit(self._save, self._publish, name="the settings")

    def change(self, properties: Properties, done: Done) -> None:
        """Put RocketMQ's keys and text values over the settings.

        Raises:
            ConfigError: a key holds a value that is not allowed.
            Rejected: too many changes wait for the disk.
        """
        self._current().changed_by(properties)
        self._commits.submit(properties, sum(map(len, properties.values())), done)

    async def close(self) -> None:
        """Wait until what was asked for is saved; refuse more."""
        await self._commits.close()

    def _save(self, changes: Sequence[Properties]) -> tuple[NameServerConfig, int]:
        import javaproperties  # it loads an XML parser: only changes of settings pay

        config = self._current()
        for properties in changes:  # each was checked, and no key's range depends on another key
            config = config.changed_by(properties)
        replace_file(config.config_store_path, javaproperties.dumps(config.to_properties()).encode())
        return config, len(changes)

    def _publish(self, saved: tuple[NameServerConfig, int]) -> Sequence[None]:
        config, count = saved
        self._use(config)
        return [None] * count
