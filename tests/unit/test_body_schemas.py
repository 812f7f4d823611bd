"""Claims about bodies that a schema's file decodes. The files and bodies are made by the libraries' own writers."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime
from decimal import Decimal

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from cases import each_case
from orbitmq.body_schemas import load_schema
from orbitmq.errors import ConfigError, HeaderError

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "raw", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}


@pytest.fixture
def avro(tmp_path):
    path = tmp_path / "orders.avsc"
    path.write_text(json.dumps(ORDER))
    return load_schema(str(path))


@pytest.fixture
def protobuf_file(tmp_path):
    field = descriptor_pb2.FieldDescriptorProto
    order = descriptor_pb2.DescriptorProto(
        name="Order",
        field=[
            field(name="order_id", number=1, type=field.TYPE_INT32),
            field(name="to", number=2, type=field.TYPE_STRING),
        ],
    )
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", message_type=[order])
    path = tmp_path / "orders.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return path


def avro_body():
    stream = io.BytesIO()
    at = datetime(2026, 11, 29, tzinfo=UTC)
    fastavro.schemaless_writer(stream, ORDER, {"id": 7, "raw": b"\xff\0", "at": at, "price": Decimal("3.50")})
    return stream.getvalue()


def test_an_avro_body_becomes_json_with_bytes_in_base64_and_times_as_text(avro):
    assert avro(avro_body()) == {"id": 7, "raw": "/wA=", "at": "2026-11-29 00:00:00+00:00", "price": "3.50"}


def test_a_protobuf_body_becomes_json_with_the_fields_as_the_schema_names_them(protobuf_file):
    assert load_schema(f"{protobuf_file}:shop.Order")(b"\x08\x07\x12\x04Kiel") == {"order_id": 7, "to": "Kiel"}


def test_a_body_that_does_not_fit_is_refused_and_never_shown_in_part(avro, protobuf_file):
    protobuf = load_schema(f"{protobuf_file}:shop.Order")
    for decode, body in (
        (avro, b""),
        (avro, avro_body()[:-1]),
        (avro, avro_body() + b"x"),
        (protobuf, b"\x08"),
        (protobuf, b"{}"),
    ):
        with pytest.raises(HeaderError, match="the body does not fit the schema: "):
            decode(body)


@each_case("orders.json", "missing.avsc", "missing.desc:shop.Order", "orders.desc:")
def test_what_names_no_schema_is_refused_by_its_name(text):
    with pytest.raises(ConfigError, match=rf"schema.*{text}"):
        load_schema(text)


def test_a_file_that_is_not_a_schema_and_a_message_that_it_does_not_have_are_refused(tmp_path, protobuf_file):
    (tmp_path / "bad.avsc").write_text('{"type": "recrd"}')
    for text in (f"{tmp_path}/bad.avsc", f"{protobuf_file}:shop.Click"):
        with pytest.raises(ConfigError, match="a schema that can be read"):
            load_schema(text)


LIST = {"type": "record", "name": "List", "fields": [{"name": "next", "type": ["null", "List"]}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


def schema_of(tmp_path, document):
    path = tmp_path / "hostile.avsc"
    path.write_text(json.dumps(document))
    return load_schema(str(path))


def long_of(number):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", number)
    return stream.getvalue()


@each_case(
    ({"type": "array", "items": "null"}, long_of(10**12) + b"\0", "more than 200000 values"),
    ({"type": "array", "items": "null"}, long_of(-(10**12)) + b"\0\0", "more than 200000 values"),
    (LIST, b"\x02" * 5_000 + b"\0", "more than 100 deep"),  # fastavro ended the process
    ({"type": "record", "name": "Endless", "fields": [{"name": "next", "type": "Endless"}]}, b"", "more than 100 deep"),
    ("long", b"\xff" * 100 + b"\x01", "more than 64 bits"),
    ("long", b"\xff" * 9 + b"\x7f", "more than 64 bits"),
    (["null", "int"], long_of(-1), "number -1 of 2"),
    ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, long_of(-1), "number -1 of 2"),
    (DECIMAL, long_of(100_000) + b"\x7f" * 100_000, "a decimal has 100000 bytes"),
    ("bytes", long_of(-5) + b"abc", "-5 bytes"),
)
def test_a_hostile_avro_body_costs_neither_time_nor_memory(document, body, reason, tmp_path):
    with pytest.raises(HeaderError, match=reason):
        schema_of(tmp_path, document)(body)


def test_every_type_of_avro_is_decoded_as_its_writer_wrote_it(tmp_path):
    fields = {
        "list": LIST, "again": "List", "enum": {"type": "enum", "name": "E", "symbols": ["a", "b"]}, "same": "E",
        "fixed": {"type": "fixed", "name": "F", "size": 2}, "map": {"type": "map", "values": ["null", "double"]},
        "array": {"type": "array", "items": {"type": "int"}}, "flag": "boolean", "float": "float", "text": "string",
    }  # fmt: skip
    document = {"type": "record", "name": "All", "fields": [{"name": name, "type": of} for name, of in fields.items()]}
    value = {
        "list": {"next": {"next": None}}, "again": {"next": None}, "enum": "b", "same": "a", "fixed": b"\0\1",
        "map": {"x": None, "nan": float("nan"), "far": float("-inf")}, "array": [-(2**31), 0, 2**31 - 1], "flag": True,
        "float": 0.5, "text": "Jörg",
    }  # fmt: skip
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, document, value)
    assert schema_of(tmp_path, document)(stream.getvalue()) == {
        **value, "fixed": "AAE=", "map": {"x": None, "nan": "NaN", "far": "-Infinity"}
    }  # fmt: skip


def test_a_file_that_is_too_large_for_a_schema_is_not_read(tmp_path):
    for name, more in (("large.avsc", ""), ("large.desc", ":shop.Order")):
        with (tmp_path / name).open("wb") as file:
            file.truncate(16 * 1024 * 1024 + 1)
        with pytest.raises(ConfigError, match="more than 16777216 bytes"):
            load_schema(f"{tmp_path / name}{more}")


@each_case(
    ("fastavro", "orders.avsc", ""), ("google.protobuf", "orders.desc", ":shop.Order"), ("google", "orders.desc", ":M")
)
def test_without_the_extra_one_sentence_says_what_to_install(module, file, message, tmp_path, monkeypatch):
    (tmp_path / file).write_text('"int"')
    monkeypatch.setitem(sys.modules, module, None)
    library = "fastavro" if module == "fastavro" else "protobuf"
    with pytest.raises(ConfigError, match=rf"expected an installed {library} \(pip install 'orbitmq\[schemas\]'\)$"):
        load_schema(f"{tmp_path / file}{message}")
