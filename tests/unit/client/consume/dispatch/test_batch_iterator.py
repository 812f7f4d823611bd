from orbitmq.client.consume.dispatch.batch_iterator import BatchIterator


class FakeBatch:
    """A batch that notes how often it was left."""

    def __init__(self):
        self.left = 0

    def leave(self):
        self.left += 1


def iterator(*batches):
    left = list(batches)

    async def next_batch():
        return left.pop(0) if left else None

    return BatchIterator(next_batch)


async def test_batches_are_yielded_until_there_are_none_and_each_is_left_when_the_next_is_asked_for():
    batches = FakeBatch(), FakeBatch()
    found = []
    async for batch in iterator(*batches):
        found.append(batch)
        assert [each.left for each in found] == [1] * (len(found) - 1) + [0]
    assert found == list(batches)
    assert [each.left for each in batches] == [1, 1]


async def test_a_batch_is_left_once_although_the_end_is_asked_for_again():
    batch = FakeBatch()
    batches = iterator(batch)
    assert await anext(batches) is batch
    assert [await anext(batches, None) for _ in range(2)] == [None, None]
    assert batch.left == 1
