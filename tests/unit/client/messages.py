"""Messages as clients encode them, and as a broker stores them."""

from orbitmq.client.send.request import encode_message
from orbitmq.model.message import Message, StoredMessage


def stored(queue_offset, *, body=b"", size=100):
    """Return the message at an offset of queue 0 of topic `t`."""
    return StoredMessage(
        topic="t", body=body, properties={}, queue_id=0, queue_offset=queue_offset, physical_offset=0, store_size=size
    )


def encoded(body=b"x", **fields):
    """Return a message of topic `t` as a producer encodes it."""
    return encode_message(Message("t", body, **fields), "ID", compress_over=100)
