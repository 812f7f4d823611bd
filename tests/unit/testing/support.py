"""The clients that tests of test clusters use."""

from orbitmq import Message, Producer, PullConsumer
from orbitmq.admin import AdminClient


async def send(name_servers, body=b"x", topic="orders"):
    """Send one message."""
    async with Producer("tests", name_servers) as producer:
        return await producer.send(Message(topic, body))


async def read(name_servers, topic="orders"):
    """Return the bodies of a topic's messages, as many as the queues hold."""
    async with PullConsumer("tests", name_servers) as consumer:
        queues = await consumer.queues(topic)
        missing = sum(found.end - found.begin for found in (await consumer.offsets(queues)).values())
        consumer.assign(queues)
        bodies = []
        while len(bodies) < missing:
            bodies += [message.body for message in await consumer.poll()]
        return sorted(bodies)


async def broker_names(name_servers):
    """Return the names of the registered brokers, sorted."""
    async with AdminClient(name_servers) as admin:
        return sorted((await admin.cluster_info()).brokers)
