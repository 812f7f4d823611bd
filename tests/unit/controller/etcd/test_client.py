"""The client of etcd's gateway: endpoints, limits, refusals and tokens, without a socket."""

import asyncio
import builtins

import httpx
import orjson
import pytest

from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.etcd import client as module
from orbitmq.controller.etcd.client import EtcdClient, make_client
from orbitmq.errors import ConfigError, EtcdAnswerTooLarge, EtcdError, EtcdRefused, EtcdUnreachable

A, B = "http://a:2379", "http://b:2379"


def streamed(body, status=200):
    async def parts():
        for place in range(0, len(body), 7):
            yield body[place : place + 7]

    return httpx.Response(status, content=parts())


def answer(document, status=200):
    return streamed(orjson.dumps(document), status)


async def watched(client):
    return [message async for message in client.watch({})]


def client_of(handle, **arguments):
    return EtcdClient([A, B], transport=httpx.MockTransport(handle), **arguments)


def refusal(code, message="no"):
    return answer({"error": message, "message": message, "code": code}, 503)


async def test_the_next_endpoint_is_asked_and_kept():
    asked = []

    def handle(request):
        asked.append(request.url.host)
        if request.url.host == "a":
            raise httpx.ConnectError("refused")
        assert orjson.loads(request.content) == {"key": "x"}
        return answer({"count": "1"})

    client = client_of(handle)
    assert await client.ask("kv/range", {"key": "x"}) == {"count": "1"}
    assert await client.change("kv/txn", {"key": "x"}) == {"count": "1"}
    assert asked == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("error", "was_sent", "asked"),
    [
        (httpx.ConnectError, False, ["a", "b"]),
        (httpx.ConnectTimeout, False, ["a", "b"]),
        (httpx.ReadError, True, ["a"]),
    ],
)
async def test_a_change_is_not_sent_twice(error, was_sent, asked):
    hosts = []

    def handle(request):
        hosts.append(request.url.host)
        raise error("broken")

    client = client_of(handle)
    with pytest.raises(EtcdUnreachable) as caught:
        await client.change("kv/txn", {})
    assert (caught.value.was_sent, hosts) == (was_sent, asked)
    hosts.clear()
    with pytest.raises(EtcdUnreachable):
        await client.ask("kv/range", {})
    assert sorted(hosts) == ["a", "b"]


async def test_a_refusal_that_every_endpoint_would_give_is_final():
    asked = []

    def handle(request):
        asked.append(request.url.host)
        return refusal(11, "compacted")

    client = client_of(handle)
    with pytest.raises(EtcdRefused, match="compacted") as caught:
        await client.ask("kv/range", {})
    assert (caught.value.code, asked) == (11, ["a"])


async def test_an_endpoint_without_a_leader_is_left():
    client = client_of(lambda request: refusal(14) if request.url.host == "a" else answer({}))
    assert await client.ask("kv/range", {}) == {}
    client._place = 0
    with pytest.raises(EtcdRefused):
        await client.change("kv/txn", {})
    assert client._place == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"result":5}'])
async def test_what_is_no_answer_is_an_error(body):
    with pytest.raises(EtcdError):
        await client_of(lambda request: streamed(body)).ask("kv/range", {})


async def test_answers_have_a_limit(monkeypatch):
    monkeypatch.setattr(module, "ANSWER_SIZE_MAX", 10)
    client = client_of(lambda request: answer({"kvs": "x" * 20}))
    with pytest.raises(EtcdAnswerTooLarge):
        await client.ask("kv/range", {})
    with pytest.raises(EtcdAnswerTooLarge):
        await watched(client)


async def test_an_answer_has_a_time():
    async def handle(request):
        await asyncio.sleep(30)

    with pytest.raises(EtcdUnreachable, match="does not answer in"):
        await client_of(handle).ask("kv/range", {}, timeout_s=0.01)


async def test_endpoints_of_two_clusters_are_told_apart():
    clusters = {"a": "1", "b": "2"}
    client = client_of(lambda request: answer({"header": {"cluster_id": clusters[request.url.host]}}))
    await client.ask("kv/range", {})
    client._place = 1
    with pytest.raises(EtcdError, match="of the cluster 2, and 1 was known"):
        await client.change("kv/txn", {})


async def test_a_watch_is_read_line_by_line():
    lines = b'{"result":{"created":true}}\n\n{"result":{"events":[]}}\n{"error":{"grpc_code":14,"message":"gone"}}\n'

    client, told = client_of(lambda request: streamed(lines)), []

    async def hear():
        async for message in client.watch({}):
            told.append(message)  # noqa: PERF401, for what came before the error is looked at

    with pytest.raises(EtcdRefused, match="gone"):
        await hear()
    assert told == [{"created": True}, {"events": []}]
    with pytest.raises(EtcdRefused):
        await watched(client_of(lambda request: refusal(3)))


async def test_a_token_is_asked_for_once_and_again_when_it_is_old():
    tokens, seen = iter(["t1", "t2"]), []

    def handle(request):
        if request.url.path == "/v3/auth/authenticate":
            assert orjson.loads(request.content) == {"name": "u", "password": "p"}
            return answer({"token": next(tokens)})
        seen.append(request.headers["authorization"])
        return refusal(16, "invalid auth token") if seen == ["t1", "t1"] else answer({})

    client = client_of(handle, user="u", password="p")
    for _ in range(2):
        await client.ask("kv/range", {})
    assert seen == ["t1", "t1", "t2"]


async def test_without_a_token_nothing_was_sent():
    client = client_of(lambda request: answer({"token": "bad\n"}), user="u", password="p")
    with pytest.raises(EtcdUnreachable) as caught:
        await client.change("kv/txn", {})
    assert not caught.value.was_sent


def config(**values):
    return ControllerConfig(controller_type="etcd", etcd_endpoints=A, **values)


def test_a_missing_library_is_named_with_its_command(monkeypatch):
    imported = builtins.__import__

    def fail(name, *arguments, **more):
        if name == "httpx":
            raise ImportError(name)
        return imported(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(ConfigError, match=r"pip install 'orbitmq\[etcd\]'"):
        make_client(config())


def test_files_that_cannot_be_used_are_named(tmp_path):
    with pytest.raises(ConfigError, match="etcdPasswordFile"):
        make_client(config(etcd_user="u", etcd_password_file=str(tmp_path / "none")))
    with pytest.raises(ConfigError, match="etcdTrustCertPath"):
        make_client(
            ControllerConfig(controller_type="etcd", etcd_endpoints="https://a:1", etcd_trust_cert_path="/none")
        )


def test_a_password_is_read_from_its_file(tmp_path):
    (tmp_path / "password").write_text("secret\n")
    client = make_client(config(etcd_user="u", etcd_password_file=str(tmp_path / "password")))
    assert client._password == "secret"
