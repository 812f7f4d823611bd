"""Messages as a broker stores them."""

from orbitmq.model.message import StoredMessage


def stored(queue_offset, *, body=b"", size=100):
    """Return the message at an offset of queue 0 of topic `t`."""
    return StoredMessage(
        topic="t", body=body, properties={}, queue_id=0, queue_offset=queue_offset, physical_offset=0, store_size=size
    )
