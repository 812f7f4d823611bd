import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.admin.backup.manifest import decode_manifest, encode_manifest
from orbitmq.errors import OrbitError
from unit.admin.backup.support import manifest, queue_file, table_file


def changed(change):
    """An encoded manifest with another document in it, and the checksum that fits this one."""
    from orbitmq.admin.backup.manifest import _checksum

    document = orjson.loads(encode_manifest(manifest(table_file(), queue_file())))
    change(document["backup"])
    document["sha256"] = _checksum(document["backup"])
    return orjson.dumps(document)


def test_a_manifest_comes_back_as_it_was():
    whole = manifest(table_file(), queue_file(begin=3, end=13), problems=("b does not answer",))
    assert decode_manifest(encode_manifest(whole)) == whole
    assert whole.message_count == 10


@given(st.data())
def test_no_flipped_bit_of_a_manifest_goes_unnoticed(data):
    whole = manifest(table_file(), queue_file())
    content = bytearray(encode_manifest(whole))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = decode_manifest(bytes(content))
    except OrbitError:
        return
    assert found == whole  # white space, or the case of an escape


@each_case("../tables-1.json", "messages-1.gz/..", "/etc/passwd", "tables-1.json\n", "manifest.json", "messages-1.json")
def test_a_file_outside_of_the_directory_is_refused(name):
    with pytest.raises(OrbitError, match="is not the name of a file"):
        decode_manifest(changed(lambda backup: backup["files"][0].update(name=name)))


@each_case(
    (1, {"topic": "../orders"}),
    (1, {"topic": ""}),
    (1, {"queueId": -1}),
    (1, {"begin": 11}),
    (1, {"count": 11}),
    (0, {"broker": "../a"}),
    (0, {"broker": "b"}),
    (0, {"size": -1}),
    (0, {"size": 1 << 40}),
    (0, {"kind": "messages"}),
)
def test_values_that_no_backup_has_are_refused(index, change):
    with pytest.raises(OrbitError):
        decode_manifest(changed(lambda backup: backup["files"][index].update(change)))


def test_a_file_or_a_queue_that_stands_there_twice_is_refused():
    for files in ((table_file(), table_file()), (table_file(), queue_file(), queue_file(name="messages-2.gz"))):
        with pytest.raises(OrbitError, match="stands there twice"):
            decode_manifest(encode_manifest(manifest(*files)))


def test_a_broker_without_its_one_table_is_refused():
    for files in ((), (queue_file(),), (table_file(), table_file("tables-2.json"))):
        with pytest.raises(OrbitError, match="expected one of each of a"):
            decode_manifest(encode_manifest(manifest(*files)))


def test_messages_in_a_backup_that_says_it_has_none_are_refused():
    with pytest.raises(OrbitError, match="hasMessages is false, and there are 1 files of messages"):
        decode_manifest(changed(lambda backup: backup.update(hasMessages=False)))


@each_case(("count", 1.5), ("topic", None), ("size", "much"), ("topic", "a\0b"))
def test_a_value_of_another_type_is_refused(field, value):
    with pytest.raises(OrbitError, match="manifest: "):
        decode_manifest(changed(lambda backup: backup["files"][1].update({field: value})))


def test_another_format_is_named():
    with pytest.raises(OrbitError, match="format 2; this version reads format 1"):
        decode_manifest(changed(lambda backup: backup.update(format=2)))


def test_a_changed_manifest_is_damaged():
    content = encode_manifest(manifest(queue_file())).replace(b'"count": 10', b'"count": 9')
    with pytest.raises(OrbitError, match="checksum does not match"):
        decode_manifest(content)
