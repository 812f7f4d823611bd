"""Is this log a copy of the master's? Compared before a slave follows: records of its end, byte by byte.

A master that died and comes back as a slave may have messages that no slave ever had: its log then has another end than the
new master's, often of the same size. Nothing in the protocol of the HA port tells (Java's slaves follow, and count as copies),
so a slave asks its master for the records that stand at the same places there (33), which every broker answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from orbitmq.codes import ResponseCode
from orbitmq.errors import RemoteRefused, StoreError
from orbitmq.store import Store
from orbitmq.wire.bodies.stats import decode_log_end
from orbitmq.wire.headers import GetReplicationStatus, ViewMessage

_ADVICE = "it is not a copy; move this broker's store away, and it copies the master's log from the start of a file"


async def check_copy(store: Store, ask: Callable[[object], Awaitable[bytes]]) -> None:
    """Compare the end of this log with the master's.

    Args:
        ask: asks the master, and returns the body of its answer.

    Raises:
        StoreError: it has another history than the master's.
        ClientError: the master does not answer.
    """
    places = store.newest_places()
    if not places:
        return
    end, master_end = store.max_physical_offset, decode_log_end(await ask(GetReplicationStatus()))
    if end > master_end:
        raise StoreError(f"this log ends at {end}, and the master's at {master_end}: {_ADVICE}")
    for number, place in enumerate(places):
        mine = store.record_at(place, is_for_slave=True)
        if mine is None:
            continue
        try:
            theirs = await ask(ViewMessage(physical_offset=place, for_slave=True))
        except RemoteRefused as refusal:
            # Older records may be deleted there already, or here first; the last one is where the master goes on.
            if refusal.code != ResponseCode.SYSTEM_ERROR or number:
                continue
            theirs = b""
        if theirs != mine:
            raise StoreError(f"this log has another record at {place} than the master's: {_ADVICE}")
