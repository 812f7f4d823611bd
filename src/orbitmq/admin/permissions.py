"""A broker's write permission in a NameServer's routes: the first step of retiring a broker.

It lives in each NameServer's memory alone, so every one of them has to be told; works with Java's, too.
"""

from __future__ import annotations

from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import AddWritePerm, AddWritePermResponse, WipeWritePerm, WipeWritePermResponse


async def set_write_perm(
    pool: ConnectionPool, address: str, broker_name: str, *, is_writable: bool, timeout_ms: int = 3000
) -> int:
    """Set or clear the write bit of every topic of a broker; return how many topics one NameServer knows of it.

    Raises:
        ClientError: the NameServer cannot be asked, or refuses.
    """
    header = (AddWritePerm if is_writable else WipeWritePerm)(broker_name=broker_name)
    fields = expect(await pool.request(address, header, timeout_ms=timeout_ms), address).ext_fields
    if is_writable:
        return decode_header(AddWritePermResponse, fields).add_topic_count
    return decode_header(WipeWritePermResponse, fields).wipe_topic_count
