"""Dead letters of a group, made as consumers make them."""

from orbitmq import Message, Producer
from orbitmq.admin import AdminClient
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.headers import ConsumerSendBack
from orbitmq.wire.messages.message_id import parse_offset_message_id
from waiting import until


async def bury(name_servers, addresses, group, topic, *bodies, broker=None, **fields):
    """Send messages and give each back as one that `group` cannot process; return their offset message ids."""
    pool, ids = ConnectionPool(), []
    try:
        async with Producer("makers", name_servers) as producer:
            for body in bodies:
                queues = [queue for queue in await producer.queues(topic) if broker in (None, queue.broker_name)]
                sent = await producer.send(Message(topic, body, **fields), queue=queues[0])
                ids.append(sent.offset_message_id)
                _, offset = parse_offset_message_id(sent.offset_message_id)
                give_up = ConsumerSendBack(physical_offset=offset, group=group, delay_level=-1)
                answer = await pool.request(addresses[sent.queue.broker_name], give_up)
                assert answer.code == 0, answer.remark
        if bodies:  # the broker tells its NameServers of the topic after it has answered
            async with AdminClient(name_servers) as admin:

                async def is_known() -> bool:
                    return f"%DLQ%{group}" in await admin.topic_list()

                await until(is_known, 0.01)
    finally:
        await pool.close()
    return ids
