import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.wire import fastjson

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
object_keys = st.dictionaries(texts, st.integers(0, 9) | texts, min_size=1, max_size=3).map(
    lambda key: tuple(sorted(key.items()))
)


@given(st.dictionaries(st.integers(-9, 10**6), values, max_size=4))
def test_bare_integer_keys_round_trip(table):
    assert fastjson.loads(fastjson.dumps_loose(table)) == {str(key): value for key, value in table.items()}


@given(st.dictionaries(object_keys, values, min_size=1, max_size=3))
def test_object_keys_round_trip(table):
    assert fastjson.loads(fastjson.dumps_loose({"offsetTable": table})) == {"offsetTable": table}


@each_case(
    b"", b"{", b"{{", b'{{"a":1}', b'{{"a":1}:2', b'{{"a":1}:}', b"nope", b'{{"a":{}}:1}', b'{"a":1}x', b"{{" * 100_000
)
def test_what_is_no_json_is_refused(data):
    with pytest.raises(ValueError, match=r"."):
        fastjson.loads(data)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_value_error(data):
    with contextlib.suppress(ValueError):
        fastjson.loads(data)


@each_case(
    b"[" + b"[]," * fastjson.CONTAINERS_MAX + b"[]]",
    b"{" + b",".join(b"%d:0" % number for number in range(fastjson.TEXTS_MAX)) + b"}",
    b"{" + b'"a":"b",' * fastjson.TEXTS_MAX + b"1:0}",
    b'{{"a":1}:2}',
)
def test_what_takes_long_is_refused_where_documents_are_bounded(data):
    fastjson.loads(data)
    with pytest.raises(ValueError, match=r"."):
        fastjson.loads(data, is_bounded=True)


def test_small_documents_of_both_kinds_pass_the_bounds():
    assert fastjson.loads(b'{"a":[{}],1:{}}', is_bounded=True) == {"a": [{}], "1": {}}


def nested(opening: bytes, closing: bytes, depth: int) -> bytes:
    """Return a document that only the parser of the dialects reads, so deep behind its first object key."""
    return b'{{"k":1}:' + opening * depth + b"0" + closing * depth + b"}"


@each_case((b"[", b"]"), (b'{"a":', b"}"))
def test_nesting_is_bounded(opening, closing):
    fastjson.loads(nested(opening, closing, fastjson.DEPTH_MAX - 1))
    with pytest.raises(ValueError, match="nested deeper than 64"):
        fastjson.loads(nested(opening, closing, fastjson.DEPTH_MAX))


def test_nesting_of_keys_is_bounded():
    with pytest.raises(ValueError, match="nested deeper than 64"):
        fastjson.loads(b"{" * (fastjson.DEPTH_MAX + 2) + b'"a":1' + b"}:1" * fastjson.DEPTH_MAX + b"}")


@each_case(
    (b'{{"k":1}:1}x', "text after the end, at 11"),
    (b'{{"k":1} 1}', "no colon at 9"),
    (b'{{"k":1}:1;}', "neither comma nor } at 10"),
    (b'{{"k":1}:[1;]}', "neither comma nor ] at 11"),
    (b'{{"k":1}:x}', "no JSON value at 9"),
    (b'{{"k":1}:', "ends too early"),
    (b'{{"k":1}:1,[]:1}', "a list as key"),
    (b'{{"k":{}}:1}', "an object key holds another object"),
    (b'{{"k":1}:"\\ud800"}', "surrogates"),
)
def test_what_is_wrong_in_a_dialect_is_said_with_its_position(data, words):
    with pytest.raises(ValueError, match=words):
        fastjson.loads(data)


@each_case(
    (b'{"a":"{0:1,2:3}",7:"x"}', {"a": "{0:1,2:3}", "7": "x"}),
    (b'{{"k":1}:{1:2,true:3}}', {(("k", 1),): {"1": 2, "true": 3}}),
    (
        b' {{ "k" : 1 } : [ 1 , true , null , -1.5e3 , { } , [ ] ] , "a" : "b" } ',
        {(("k", 1),): [1, True, None, -1500.0, {}, []], "a": "b"},
    ),
)
def test_a_dialect_has_bare_and_odd_keys_white_space_everywhere_and_texts_that_look_like_keys(data, value):
    assert fastjson.loads(data) == value


def test_a_document_of_just_the_bounds_passes():
    containers = b"[" + b"[]," * (fastjson.CONTAINERS_MAX - 2) + b"[]]"
    assert len(fastjson.loads(containers, is_bounded=True)) == fastjson.CONTAINERS_MAX - 1
    keys = b"{" + b",".join(b"%d:0" % number for number in range(fastjson.TEXTS_MAX - 1)) + b"}"
    assert len(fastjson.loads(keys, is_bounded=True)) == fastjson.TEXTS_MAX - 1
