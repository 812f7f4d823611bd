from hypothesis import given
from hypothesis import strategies as st

from orbitmq.codes import RequestCode
from orbitmq.wire.command import Command
from orbitmq.wire.signature import ACCESS_KEY, SIGNATURE, Credentials, is_signed_by, sign, sign_command, signature_of

CREDENTIALS = Credentials("rocketmq2", "12345678")
fields = st.dictionaries(
    st.sampled_from(["topic", "a", "Z", "b"]), st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
)


def test_the_signature_covers_the_values_in_the_order_of_their_names_and_the_body():
    # Worked by hand with `openssl dgst -sha1 -hmac 12345678 -binary | base64` over "rocketmq2" + "T" + "body".
    assert sign({"topic": "T"}, b"body", CREDENTIALS)[SIGNATURE] == "YxD0ZV4OXkTmdaZgdqUmy2tW3zU="


@given(fields, st.binary(max_size=20))
def test_what_was_signed_is_accepted(ext_fields, body):
    assert is_signed_by(sign(ext_fields, body, CREDENTIALS), body, CREDENTIALS.secret_key)


@given(fields, st.binary(max_size=20))
def test_any_change_is_noticed(ext_fields, body):
    signed = sign(ext_fields, body, CREDENTIALS)
    assert not is_signed_by(signed, body + b"x", CREDENTIALS.secret_key)
    assert not is_signed_by(signed | {"topic": signed.get("topic", "") + "x"}, body, CREDENTIALS.secret_key)
    assert not is_signed_by(signed, body, "another secret")
    assert not is_signed_by({ACCESS_KEY: "rocketmq2"}, body, CREDENTIALS.secret_key)


def test_a_security_token_is_covered_too():
    signed = sign({}, b"", Credentials("k", "s", "token"))
    assert signature_of(signed | {"SecurityToken": "other"}, b"", "s") != signed[SIGNATURE]


def test_the_secret_does_not_show():
    assert "12345678" not in repr(CREDENTIALS)


def test_a_request_is_signed_where_there_are_credentials_and_left_alone_where_there_are_none():
    command = Command(105, ext_fields={"topic": "T"}, body=b"body")
    signed = sign_command(command, CREDENTIALS)
    assert signed == command._replace(ext_fields=sign({"topic": "T"}, b"body", CREDENTIALS))
    assert sign_command(command, None) is command


def test_a_signature_leaves_open_what_the_security_page_says():
    fields = {"AccessKey": "operator", "key": "orders", "namespace": "ORDER_TOPIC_CONFIG", "value": "a:4"}
    signature = signature_of(fields, b"", "secret")
    moved = {**fields, "key": "ordersORDER", "namespace": "_TOPIC_CONFIG", SIGNATURE: signature}
    assert is_signed_by(moved, b"", "secret")
    asked = Command(RequestCode.GET_KV_CONFIG, 1, ext_fields={"key": "orders", "namespace": "n"})
    signed = sign_command(asked, Credentials("operator", "secret"))
    other = signed._replace(code=RequestCode.DELETE_KV_CONFIG, opaque=2)
    assert is_signed_by(other.ext_fields or {}, other.body, "secret")
