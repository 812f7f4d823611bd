"""A broker's write permission in a NameServer's routes: the first step of retiring a broker.

It lives in each NameServer's memory alone, so every one of them has to be told; works with Java's, too.
"""

from __future__ import annotations

from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import AddWritePerm, AddWritePermResponse, WipeWritePerm, WipeWritePermResponse


async def wipe_write_perm(pool: ConnectionPool, address: str, broker_name: str, *, timeout_ms: int = 3000) -> int:
    """Take the write bit from every topic of a broker name; return how many topics one NameServer knows of it.

    Raises:
        ClientError: the NameServer cannot be asked, or refuses.
    """
    header = WipeWritePerm(broker_name=broker_name)
    answer = expect(await pool.request(address, header, timeout_ms=timeout_ms), address)
    return decode_header(WipeWritePermResponse, answer.ext_fields).wipe_topic_count


async def add_write_perm(pool: ConnectionPool, address: str, broker_name: str, *, timeout_ms: int = 3000) -> int:
    """Let every topic of a broker name be read and written again; return how many one NameServer knows of it.

    Raises:
        ClientError: the NameServer cannot be asked, or refuses.
    """
    header = AddWritePerm(broker_name=broker_name)
    answer = expect(await pool.request(address, header, timeout_ms=timeout_ms), address)
    return decode_header(AddWritePermResponse, answer.ext_fields).add_topic_count
