"""The identity of a broker in its controlled group: the id that its controllers gave it, once and for all.

It is asked for in three steps, and a crash after any of them goes on where it was: the id that is to be is noted with a check
code of this broker's own (`brokerIdentity-temp`), applied for, and noted as given (`brokerIdentity`).

Source: Java ReplicasManager, BrokerMetadata, TempBrokerMetadata; docs/formats/config_files.md.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orbitmq.admin.controllers import Controllers
from orbitmq.clock import Clock
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError, RemoteRefused, StoreError
from orbitmq.files import read_table, replace_file
from orbitmq.wire.headers import ApplyBrokerId, GetNextBrokerId, GetNextBrokerIdResponse

_SEPARATOR = "#"


class Applied(NamedTuple):
    """An id that was applied for, and the code that shows whose application it was."""

    broker_id: int
    check_code: str


class IdentityFiles:
    """The two files.

    Args:
        root: storePathRootDir.
    """

    def __init__(self, root: Path, cluster: str, broker_name: str) -> None:
        self._path = root / "brokerIdentity"
        self._applied_path = root / "brokerIdentity-temp"
        self._names = (cluster, broker_name)

    def read(self) -> int | None:
        """Return the id of this broker, None before it has one.

        Raises:
            StoreError: the file is damaged, or of another broker name or cluster.
        """
        parts = read_table(self._path, lambda content: _parse(content, 3))
        if parts is None:
            return None
        if tuple(parts[:2]) != self._names:
            raise StoreError(
                f"{self._path} is of the broker {parts[1]} of cluster {parts[0]}, not of {self._names[::-1]}"
            )
        return int(parts[2])

    def read_applied(self) -> Applied | None:
        """Return what was applied for last. Raises StoreError as `read`."""
        parts = read_table(self._applied_path, lambda content: _parse(content, 4))
        return None if parts is None or tuple(parts[:2]) != self._names else Applied(int(parts[2]), parts[3])

    def note_applied(self, applied: Applied) -> None:
        """Keep what is about to be applied for. Raises OSError."""
        replace_file(self._applied_path, _SEPARATOR.join((*self._names, *map(str, applied))).encode())

    def note(self, broker_id: int) -> None:
        """Keep the id that was given. Raises OSError."""
        replace_file(self._path, _SEPARATOR.join((*self._names, str(broker_id))).encode())
        for path in (self._applied_path, self._applied_path.with_name(self._applied_path.name + ".bak")):
            with suppress(FileNotFoundError):
                path.unlink()


async def obtain_id(
    files: IdentityFiles, controllers: Controllers, cluster: str, broker_name: str, address: str, clock: Clock
) -> int:
    """Return this broker's id; at its first start it gets the next one of its group.

    Args:
        address: where this broker serves clients, host:port.

    Raises:
        ClientError: no controller answers; it may be tried again.
        StoreError, OSError: the files cannot be read or written.
    """
    if (known := files.read()) is not None:
        return known
    while True:
        applied = files.read_applied()
        if applied is None:
            asked = GetNextBrokerId(cluster_name=cluster, broker_name=broker_name)
            found, _ = await controllers.ask(asked, GetNextBrokerIdResponse)
            applied = Applied(found.next_broker_id, f"{address};{clock()}")
            files.note_applied(applied)
        try:
            await controllers.ask(
                ApplyBrokerId(
                    cluster_name=cluster,
                    broker_name=broker_name,
                    applied_broker_id=applied.broker_id,
                    register_check_code=applied.check_code,
                )
            )
        except RemoteRefused as refusal:
            if refusal.code != ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                raise
            # Another broker was given it first: the next number is asked for, under another code.
            found, _ = await controllers.ask(
                GetNextBrokerId(cluster_name=cluster, broker_name=broker_name), GetNextBrokerIdResponse
            )
            if found.next_broker_id == applied.broker_id:
                raise
            files.note_applied(Applied(found.next_broker_id, f"{address};{clock()}"))
            continue
        files.note(applied.broker_id)
        return applied.broker_id


def _parse(content: bytes, count: int) -> list[str]:
    try:
        parts = content.decode().split(_SEPARATOR)
        if len(parts) != count or int(parts[2]) < 1:
            raise ValueError(f"{count} parts with an id from 1 are expected")
    except ValueError as error:
        raise HeaderError(f"a broker's identity: {error}") from None
    return parts
