import pytest

from cases import each_case
from orbitmq.client.send.batch import EncodedBatch
from orbitmq.client.send.result import SendResult, SendStatus, decode_results, is_stored
from orbitmq.errors import HeaderError
from orbitmq.model.route import MessageQueue
from orbitmq.wire.command import Command
from unit.client.messages import encoded

QUEUE = MessageQueue("t", "a", 3)


def answer(code=0, **fields):
    return Command(code, ext_fields={"msgId": "OFF", "queueId": "3", "queueOffset": "40", **fields})


def test_a_result_says_where_the_message_is():
    results = decode_results([encoded()], QUEUE, answer())
    assert results is not None
    (result,) = results
    assert result == SendResult("ID", "OFF", QUEUE, 40, SendStatus.SEND_OK, None)
    handled = decode_results([encoded()], QUEUE, answer(recallHandle="H"))
    assert handled is not None
    assert handled[0].recall_handle == "H"


def test_a_result_names_the_queue_that_the_broker_chose():
    for load in ([encoded()], [encoded(), encoded()], EncodedBatch("t", b"items", 2, "ID")):
        found = decode_results(load, QUEUE, answer(queueId="2"))
        assert {result.queue for result in found} == {MessageQueue("t", "a", 2)}


@each_case((10, "FLUSH_DISK_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE"), (12, "FLUSH_SLAVE_TIMEOUT"))
def test_a_stored_message_whose_safety_is_in_doubt_says_so(code, status):
    results = decode_results([encoded()], QUEUE, answer(code))
    assert results is not None
    (result,) = results
    assert result.status == status
    assert is_stored(answer(code))
    assert not is_stored(answer(1))


def test_a_refusal_is_no_result():
    assert decode_results([encoded()], QUEUE, answer(13)) is None


def test_a_batch_is_answered_with_the_first_offset_and_all_ids():
    found = decode_results([encoded(), encoded()], QUEUE, answer(msgId="A,B"))
    assert [(result.offset_message_id, result.queue_offset) for result in found] == [("A", 40), ("B", 41)]
    found = decode_results([encoded(), encoded()], QUEUE, answer(msgId=""))
    assert [result.offset_message_id for result in found] == ["", ""]


def test_messages_that_were_encoded_together_have_the_first_ones_result():
    found = decode_results(EncodedBatch("t", b"items", 2, "ID"), QUEUE, answer(msgId="A,B"))
    assert found == [SendResult("ID", "A", QUEUE, 40, SendStatus.SEND_OK)]
    assert decode_results(EncodedBatch("t", b"items", 2, "ID"), QUEUE, answer(13)) is None


def test_a_success_without_a_place_is_no_success():
    with pytest.raises(HeaderError, match="msgId"):
        decode_results([encoded()], QUEUE, Command(0, ext_fields={}))
