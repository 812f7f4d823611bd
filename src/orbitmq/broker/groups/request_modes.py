"""Request modes: whether a group's consumers pull a topic's messages or pop them. Every change is kept in its file.

Source: Java MessageRequestModeManager; docs/formats/config_files.md.
"""

from __future__ import annotations

import logging
from pathlib import Path

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.files import read_table, replace_file
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.wire.pop.assignments import PULL, RequestMode, format_request_modes, parse_request_modes

log = logging.getLogger(__name__)

COUNT_MAX = 100_000
"""Ours: pairs of a topic and a group that have a mode of their own."""


class RequestModes:
    """The modes of all groups.

    Args:
        path: messageRequestMode.json.
        default: of groups without a mode of their own.
        share_queue_count: of such groups, where they pop.
    """

    def __init__(self, path: Path, *, default: str, share_queue_count: int) -> None:
        self._path = path
        self._default = default
        self._share_queue_count = share_queue_count
        found = read_table(path, parse_request_modes) or []
        self._modes = {(mode.topic, mode.group): mode for mode in found}

    def find(self, topic: str, group: str) -> RequestMode:
        """Return how a group gets a topic's messages; its retries are always pulled."""
        found = self._modes.get((topic, group))
        if found is not None:
            return found
        if topic.startswith(RETRY_PREFIX) or self._default == PULL:
            return RequestMode(topic, group)
        return RequestMode(topic, group, self._default, self._share_queue_count)

    @property
    def all(self) -> list[RequestMode]:
        """Every mode that was set."""
        return list(self._modes.values())

    def set(self, mode: RequestMode) -> None:
        """Set a mode and keep it.

        Raises:
            Rejected: 29, there are too many; 14, the disk refused: it is as it was.
        """
        place = mode.topic, mode.group
        if place not in self._modes and len(self._modes) >= COUNT_MAX:
            raise Rejected(
                ResponseCode.INVALID_PARAMETER, f"there are {COUNT_MAX} topics and groups with a mode, no more are kept"
            )
        changed = {**self._modes, place: mode}
        try:
            replace_file(self._path, format_request_modes(changed.values()))
        except OSError as error:
            log.warning("the request modes cannot be saved: %s", error)
            raise Rejected(
                ResponseCode.SERVICE_NOT_AVAILABLE, f"the request modes cannot be saved: {error.strerror}"
            ) from error
        self._modes = changed
