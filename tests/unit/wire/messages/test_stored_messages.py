"""Messages as consumers see them: decoded, decompressed, or with the reason why not."""

from cases import each_case
from orbitmq.model.message import SysFlag
from orbitmq.wire.messages.compression import DECOMPRESSED_SIZE_MAX, CompressionType, compress
from orbitmq.wire.messages.record import Record, parse_record
from orbitmq.wire.messages.stored_messages import to_stored_message
from unit.wire.messages.parts import parsed_record, record


def test_a_stored_message_is_decoded_for_users():
    message = to_stored_message(parsed_record(memoryview(record())), "broker-a")
    assert message.tag == "new"
    assert message.keys == ("a", "b")
    assert message.body == b"hello"
    assert (message.queue_offset, message.physical_offset, message.store_size) == (11, 2**33, len(record()))
    assert message.broker_name == "broker-a"


def test_a_compressed_body_is_decompressed_unless_asked_otherwise():
    packed = compress(b"z" * 100)
    parsed = parsed_record(record(body=packed, sys_flag=CompressionType.ZLIB.sys_flag))
    assert to_stored_message(parsed).body == b"z" * 100
    assert to_stored_message(parsed, decompress=False).body == packed


def test_properties_that_are_no_utf8_are_what_java_makes_of_them():
    message = to_stored_message(parsed_record(record(properties=b"a\x01\xff\x02TAGS\x01new\x02")))
    assert (message.properties, message.decode_error) == ({"a": "\ufffd", "TAGS": "new"}, None)


ROTTEN = record()[:89] + b"E" + record()[90:]
BOMB = compress(bytes(DECOMPRESSED_SIZE_MAX + 1))


@each_case(
    (record(sys_flag=SysFlag.COMPRESSED), b"hello", "ZLIB data"),
    (record(sys_flag=SysFlag.COMPRESSED | 0x700), b"hello", "compression type 0 to 3"),
    (record(body=BOMB, sys_flag=SysFlag.COMPRESSED), BOMB, f"at most {DECOMPRESSED_SIZE_MAX} decompressed"),
    (ROTTEN, b"hEllo", "checksum"),
    (record(properties=b"DECODE_ERROR\x01checksum\x02"), b"hello", "checksum"),
)
def test_a_body_that_cannot_be_decoded_stays_as_it_is_stored_and_says_why(encoded, body, reason):
    parsed = parse_record(encoded, check_crc=False)
    assert isinstance(parsed, Record)
    message = to_stored_message(parsed)
    assert (message.body, message.message_id) == (body, to_stored_message(parsed_record(record())).message_id)
    assert reason in str(message.decode_error)
