"""Messages whose bodies are not what their flags say."""

from __future__ import annotations

from orbitmq.model.message import SysFlag
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.headers import SendMessageV2


async def send_undecodable(address: str, topic: str, body: bytes) -> None:
    """Send a body that is not what its flag says, as no client of ours does."""
    pool = ConnectionPool()
    header = SendMessageV2(
        producer_group="makers", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
        sys_flag=SysFlag.COMPRESSED, born_at_ms=0, flag=0,
    )  # fmt: skip
    expect(await pool.request(address, header, body), address)
    await pool.close()
