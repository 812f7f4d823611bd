"""Bytes that real Java 5.3.3 peers sent and stored, read and written again by our codecs."""

import base64
from ipaddress import ip_address
from pathlib import Path
from struct import iter_unpack
from typing import Any

import orjson

import orbitmq.wire.headers as headers
from cases import each_case
from golden import STORE, Golden, golden, golden_frames, store_records
from orbitmq.wire import fastjson
from orbitmq.wire.bodies import consumer_info, controller, document, groups, heartbeat, registration, route, topics
from orbitmq.wire.bodies import offsets as offsets_module
from orbitmq.wire.command import Command, decode_command, encode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.header import decode_header, encode_header, request_type
from orbitmq.wire.messages.batch import parse_batch
from orbitmq.wire.messages.properties import format_properties, parse_properties, tag_code
from orbitmq.wire.messages.record import Blank, encode_record, iter_records, parse_record
from orbitmq.wire.messages.stored_messages import to_stored_message

FRAMES = golden_frames()

ANSWERS: dict[int, type] = {
    10: headers.SendResponse,
    310: headers.SendResponse,
    320: headers.SendResponse,
    11: headers.PullResponse,
    361: headers.PullResponse,
    14: headers.OffsetResponse,
    29: headers.OffsetResponse,
    30: headers.OffsetResponse,
    31: headers.OffsetResponse,
    101: headers.GetKvConfigResponse,
    103: headers.RegisterBrokerResponse,
    205: headers.WipeWritePermResponse,
    327: headers.AddWritePermResponse,
    322: headers.QueryDataVersionResponse,
    1001: headers.AlterSyncStateSetResponse,
    1002: headers.ElectMasterResponse,
    1003: headers.RegisterBrokerToControllerResponse,
    1004: headers.GetReplicaInfoResponse,
    1005: headers.GetControllerMetadataResponse,
    1012: headers.GetNextBrokerIdResponse,
    1013: headers.ApplyBrokerIdResponse,
}
BODIES: dict[str, Any] = {
    "21-answer": topics.decode_topic_table,
    "34-request": heartbeat.decode_heartbeat,
    "38-answer": heartbeat.decode_consumer_list,
    "41-answer": heartbeat.decode_locked_queues,
    "41-request": heartbeat.decode_queue_lock,
    "42-request": heartbeat.decode_queue_lock,
    "46-request": heartbeat.decode_subscription_check,
    "103-request": registration.decode_registration,
    "105-answer": route.decode_route,
    "106-answer": route.decode_cluster_info,
    "200-request": groups.decode_group_config,
    "201-answer": groups.decode_group_table,
    "202-answer": topics.decode_topic_stats,
    "206-answer": topics.decode_topic_list,
    "208-answer": topics.decode_consume_stats,
    "219-answer": document.decode_kv_table,
    "220-request": offsets_module.decode_offset_table,
    "221-answer": offsets_module.decode_client_offsets,
    "222-answer": offsets_module.decode_offset_table,
    "223-answer": offsets_module.decode_clients_offsets,
    "224-answer": topics.decode_topic_list,
    "300-answer": groups.decode_group_list,
    "303-answer": offsets_module.decode_time_spans,
    "304-answer": topics.decode_topic_list,
    "307-answer": consumer_info.decode_running_info,
    "309-answer": consumer_info.decode_direct_result,
    "320-request": parse_batch,
    "322-answer": registration.decode_data_version,
    "322-request": registration.decode_data_version,
    "901-answer": route.decode_member_group,
    "1001-answer": controller.decode_sync_set,
    "1001-request": controller.decode_sync_set,
    "1003-answer": controller.decode_sync_set,
    "1004-answer": controller.decode_sync_set,
    "1006-answer": controller.decode_sync_states,
    "1006-request": controller.decode_broker_names,
    "1007-answer": controller.decode_epochs,
    "1008-request": controller.decode_sync_set,
}


def command_of(data: bytes) -> Command:
    (frame,) = FrameDecoder().feed(data)
    return decode_command(frame)


def code_of(frame: Golden) -> int:
    """Return the code of the request, for an answer, too."""
    return int(frame.stem.split("-", 1)[0])


def kind_of(frame: Golden) -> str:
    return f"{code_of(frame)}-{'answer' if '-answer' in frame.stem else 'request'}"


def written_by_java(frame: Golden) -> bool:
    """Return True if Java chose each byte: frames of language OTHER were asked for by hand, with other spacing."""
    return frame.expected["header"]["language"] != "OTHER"


REQUESTS_WITH_TYPE = [
    frame for frame in FRAMES if kind_of(frame).endswith("request") and request_type(code_of(frame)) is not None
]
"""test_coverage_of_codes.py looks after the codes without a type."""
ANSWERS_WITH_TYPE = [
    frame
    for frame in FRAMES
    if kind_of(frame).endswith("answer") and code_of(frame) in ANSWERS and frame.expected["header"].get("ext_fields")
]
BODIES_WITH_TYPE = [frame for frame in FRAMES if kind_of(frame) in BODIES and frame.expected["header"]["body_size"]]


@each_case(*FRAMES)
def test_a_java_frame_reads_as_java_reads_it(frame):
    expected = frame.expected["header"]
    command = command_of(frame.data)
    assert command.code == expected["code"]
    assert command.opaque == expected["opaque"]
    assert command.flag == expected["flag"]
    assert command.remark == expected.get("remark")
    assert command.version == expected["version"]
    assert command.language == expected["language"]
    assert dict(command.ext_fields or {}) == expected.get("ext_fields", {})
    assert len(command.body) == expected["body_size"]


@each_case(*[frame for frame in FRAMES if written_by_java(frame)])
def test_a_java_frame_is_written_again_byte_by_byte(frame):
    assert encode_command(command_of(frame.data)) == frame.data


@each_case(*REQUESTS_WITH_TYPE)
def test_a_java_request_fits_its_typed_header(frame):
    command = command_of(frame.data)
    header_type = request_type(command.code)
    assert header_type is not None
    encoded = encode_header(decode_header(header_type, command.ext_fields))
    sent = dict(command.ext_fields or {})
    assert {name: sent.get(name) for name in encoded} | {"compressed": "false"} == encoded | {"compressed": "false"}


@each_case(*ANSWERS_WITH_TYPE)
def test_a_java_answer_fits_its_typed_header(frame):
    command = command_of(frame.data)
    encoded = encode_header(decode_header(ANSWERS[code_of(frame)], command.ext_fields))
    assert encoded.items() <= dict(command.ext_fields or {}).items()


@each_case(*BODIES_WITH_TYPE)
def test_a_java_body_has_a_typed_decoder_that_reads_it(frame):
    assert BODIES[kind_of(frame)](command_of(frame.data).body) is not None


@each_case((REQUESTS_WITH_TYPE, 70), (ANSWERS_WITH_TYPE, 40), (BODIES_WITH_TYPE, 35))
def test_there_are_frames_of_each_kind(frames, count_min):
    assert len(frames) >= count_min


@each_case(True, False)
def test_a_route_is_written_as_java_writes_it_in_both_dialects(standard):
    middle = "" if standard else "-asked-by-4.5.1"
    body = command_of(golden(f"105-get-routeinfo-by-topic{middle}-answer").data).body
    assert route.encode_route(route.decode_route(body), standard=standard) == body


def test_cluster_info_and_member_group_are_written_as_java_writes_them():
    cluster = command_of(golden("106-get-broker-cluster-info-answer").data).body
    assert route.encode_cluster_info(route.decode_cluster_info(cluster)) == cluster
    group = command_of(golden("901-get-broker-member-group-answer").data).body
    broker = route.decode_member_group(group)
    assert route.encode_member_group(broker.cluster, broker.broker_name, broker.addresses) == group


def test_a_heartbeat_is_read_with_its_groups_and_subscriptions():
    body = command_of(golden("34-heart-beat-of-a-consumer-request").data).body
    beat = heartbeat.decode_heartbeat(body)
    assert beat.producer_groups
    (consumer,) = [consumer for consumer in beat.consumers if consumer.group == "golden-pullers"]
    assert consumer.message_model == "CLUSTERING"


def test_a_registration_is_read_with_all_its_topics():
    body = command_of(golden("103-register-broker-request").data).body
    registered = registration.decode_registration(body)
    table = orjson.loads(body)["topicConfigSerializeWrapper"]["topicConfigTable"]
    assert set(registered.topics) == set(table)
    assert "TBW102" in table


def java_text(host):
    if ":" not in host.ip:
        return f"/{host.ip}:{host.port}"
    groups = (f"{int(group, 16):x}" for group in ip_address(host.ip).exploded.split(":"))
    return f"/[{':'.join(groups)}]:{host.port}"


def assert_reads_as_java(record, expected):
    message = to_stored_message(record, decompress=True)
    assert message.topic == expected["topic"]
    assert (message.queue_id, message.queue_offset) == (expected["queue_id"], expected["queue_offset"])
    assert (message.physical_offset, message.store_size) == (expected["physical_offset"], expected["size"])
    # Java's decoder takes the compressed bit away once it has decompressed the body; ours keeps what is stored.
    assert (message.flag, message.sys_flag & ~1) == (expected["flag"], expected["sys_flag"])
    assert (message.born_at_ms, message.stored_at_ms) == (expected["born_at_ms"], expected["stored_at_ms"])
    assert java_text(message.born_host) == expected["born_host"]
    assert java_text(message.store_host) == expected["store_host"]
    assert message.reconsume_times == expected["reconsume_times"]
    assert message.prepared_transaction_offset == expected["prepared_transaction_offset"]
    assert message.body_crc == expected["body_crc"]
    assert dict(message.properties) == expected["properties"]
    assert bytes(message.body) == base64.b64decode(expected["body"])


@each_case(*[frame for frame in FRAMES if "records" in frame.expected])
def test_pulled_records_read_as_java_reads_them(frame):
    records = list(iter_records(command_of(frame.data).body))
    assert len(records) == len(frame.expected["records"]) > 0
    for record, expected in zip(records, frame.expected["records"], strict=True):
        assert_reads_as_java(record, expected)


@each_case(
    ("born-v6-stored-v6", ("::1", "::1")),
    ("born-v6-stored-v4", ("::1", "127.0.0.2")),
    ("born-v4-stored-v6", ("127.0.0.1", "::1")),
)
def test_a_record_with_ipv6_hosts_reads_as_java_reads_it(kind, hosts):
    data, expected = golden(f"record-{kind}").data, golden(f"record-{kind}").expected["records"][0]
    (record,) = iter_records(data)
    assert_reads_as_java(record, expected)
    assert (record.born_host.ip, record.store_host.ip) == hosts


def segments() -> list[Path]:
    return sorted((STORE / "commitlog").iterdir())


def stored() -> list[Any]:
    """All records of the captured log with their raw bytes, in order."""
    found = []
    for segment in segments():
        data, place = segment.read_bytes(), 0
        while place < len(data) and data[place : place + 4] != bytes(4):
            record = parse_record(data[place:], int(segment.name) + place)
            if isinstance(record, Blank):
                assert place + record.size == len(data)
                break
            found.append((record, data[place : place + record.size]))
            place += record.size
    return found


def test_the_log_of_a_java_broker_reads_as_java_reads_it():
    expected = store_records()
    assert len(segments()) > 1, "the capture should roll over, to hold a filler"
    assert len(stored()) == len(expected)
    for (record, _), java in zip(stored(), expected, strict=True):
        assert_reads_as_java(record, java)


def test_the_log_of_a_java_broker_is_written_again_byte_by_byte():
    for record, data in stored():
        assert encode_record(record) == data


def test_properties_keep_their_text_through_a_round_trip():
    for record, _ in stored():
        properties = parse_properties(record.properties)
        assert parse_properties(format_properties(properties)) == properties


def test_each_unit_of_a_java_consume_queue_points_at_its_record():
    by_offset = {record.physical_offset: record for record, _ in stored()}
    seen = 0
    for path in sorted((STORE / "consumequeue").rglob("0*")):
        if not path.is_file():
            continue
        queue_offset = int(path.name) // 20
        for physical_offset, size, tags_code in iter_unpack(">qiq", path.read_bytes()):
            if size:
                record = by_offset[physical_offset]
                tag = parse_properties(record.properties).get("TAGS")
                delayed = record.topic == "SCHEDULE_TOPIC_XXXX"
                assert (record.queue_offset, record.size) == (queue_offset, size)
                assert delayed or tags_code == (tag_code(tag) if tag else 0)
                seen += 1
            queue_offset += 1
    assert seen > 50


def test_the_config_files_of_a_java_broker_read():
    config = STORE / "config"
    table = topics.decode_topic_table((config / "topics.json").read_bytes())
    assert "golden" in orjson.loads((config / "topics.json").read_bytes())["topicConfigTable"]
    assert table is not None
    assert groups.decode_group_table((config / "subscriptionGroup.json").read_bytes()) is not None
    offsets = fastjson.loads((config / "consumerOffset.json").read_bytes())["offsetTable"]
    assert offsets["golden@golden-group"]
