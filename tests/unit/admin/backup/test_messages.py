import pytest

from cases import each_case
from orbitmq.admin.backup.messages import message_key, parse_message, send_header, sent_properties
from orbitmq.errors import CorruptRecord
from orbitmq.model.message import Host, SysFlag
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import PREFIX
from unit.admin.backup.support import encoded, record

SENDERS = {"KEYS": "k1 k2", "TAGS": "t", "UNIQ_KEY": "0A", "own": "välue", "WAIT": "true", "__SHARDINGKEY": "s"}
OF_A_RETRY = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "0B", "RECONSUME_TIME": "2", "MAX_RECONSUME_TIMES": "3"}
OF_THE_BROKER = {
    "DELAY": "3",
    "TRAN_MSG": "true",
    "TIMER_DELIVER_MS": "1",
    "TIMER_OUT_MS": "1",
    "TIMER_DELAY_SEC": "1",
    "CLUSTER": "c",
    "MSG_REGION": "r",
    "TRACE_ON": "true",
    "__CRC32#": "1",
    "POP_CK": "1",
    "INNER_MULTI_QUEUE_OFFSET": "1",
}


def test_what_the_sender_wrote_is_sent_and_what_the_broker_did_is_not():
    assert sent_properties(format_properties(SENDERS | OF_THE_BROKER | OF_A_RETRY)) == SENDERS | OF_A_RETRY


def test_properties_that_are_no_text_do_not_stop_a_restore():
    assert sent_properties(b"own\x01\xff\x02") == {"own": "\ufffd"}


def test_a_message_goes_to_its_queue_with_flag_birth_and_deliveries():
    saved = record(7, queue_id=3, flag=5, born_at_ms=99, reconsume_times=2, properties=SENDERS)
    header = send_header(saved, "b")
    assert (header.topic, header.queue_id, header.flag) == ("orders", 3, 5)
    assert (header.born_at_ms, header.reconsume_times, header.broker_name) == (99, 2, "b")
    assert header.max_reconsume_times == 2**31 - 1


def test_compression_stays_and_transactions_hosts_and_batches_do_not():
    flags = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD | SysFlag.TRANSACTION_COMMIT
    saved = record(sys_flag=flags, born_host=Host("::1", 1), store_host=Host("::1", 2))
    assert send_header(saved, "b").sys_flag == SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD


def test_a_message_is_known_by_its_unique_key_or_else_by_its_birth_and_body():
    saved = record(7, properties=SENDERS | OF_THE_BROKER, born_at_ms=9)
    assert message_key(saved) == message_key(record(0, b"other", properties=SENDERS, born_at_ms=8)) == b"0A"
    plain = record(7, born_at_ms=9)
    assert message_key(plain) == message_key(record(0, born_at_ms=9))
    assert message_key(plain) not in (message_key(record(born_at_ms=8)), message_key(record(0, b"bodx", born_at_ms=9)))


@each_case(
    (encoded(0, topic="others"), "of queue 0 of 'others'"),
    (encoded(0, queue_id=1), "of queue 1"),
    (encoded(5), "queue offset 5, expected one from 6"),
    (bytes(200), "magic"),
    (PREFIX.pack(100, 0xCBD43194) + bytes(92), "filler"),
    (encoded(0)[:-4].replace(b"body", b"bady") + encoded(0)[-4:], "checksum"),
)
def test_what_is_no_record_of_the_queue_is_refused(content, reason):
    with pytest.raises(CorruptRecord, match=reason):
        parse_message(content, "orders", 0, 6, 1_000)
