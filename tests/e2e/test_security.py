"""Brokers and commands that sign and encrypt, against a NameServer that asks for it. Real processes."""

import asyncio
import json
from contextlib import ExitStack, contextmanager

import pytest

from called import call_command
from guarded import guarded_cluster as all_guarded
from orbitmq import ConsumeFrom, Message
from orbitmq.blocking import Producer, PushConsumer
from orbitmq.errors import ConfigError, SendFailed
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.net.security.client_security import load_security
from orbitmq.testing.processes import ServerProcess
from unit.nameserver.support import registration
from unit.net.certificates import Authority
from waiting import wait_for

SECRET = "operators-secret"


def run(name_server, *words, security=None):
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("ORBITMQ_SECURITY", raising=False)
        if security is not None:
            environment.setenv("ORBITMQ_SECURITY", str(security))
        done = call_command(*words, name_servers=name_server)
    assert SECRET not in done.stdout + done.stderr
    return done


def private_file(path, text):
    path.touch(0o600)
    path.write_text(text)
    return path


@contextmanager
def server(command, folder, **properties):
    process = ServerProcess(command, {key: str(value) for key, value in properties.items()}, folder)
    asyncio.run(process.start())
    try:
        yield process.address
    finally:
        asyncio.run(process.stop())


@contextmanager
def guarded_cluster(folder, *, security, **properties):
    """A NameServer that only takes signed registrations, and a broker that signs."""
    accounts = {"accounts": [{"accessKey": "operator", "secretKey": SECRET, "role": "admin"}]}
    accounts_path = private_file(folder / "accounts.json", json.dumps(accounts))
    guard = {"aclEnable": "true", "aclRegistration": "true", "aclFile": accounts_path, **properties}
    with server("nameserver", folder / "ns", bindAddress="127.0.0.1", listenPort=0, **guard) as name_server:
        settings = {"bindAddress": "127.0.0.1", "listenPort": 0, "namesrvAddr": name_server, "brokerName": "broker-a"}
        with server("broker", folder / "b", **settings, storePathRootDir=folder / "b" / "store", securityFile=security):
            yield name_server


def test_signed_brokers_and_commands_are_let_in_and_others_are_not(tmp_path):
    security = private_file(tmp_path / "own.properties", f"accessKey=operator\nsecretKey={SECRET}\n")
    forged = private_file(tmp_path / "forged.properties", "accessKey=operator\nsecretKey=somebody-elses\n")
    with guarded_cluster(tmp_path, security=security) as name_server:
        assert run(name_server, "topic", "create", "orders", security=security).returncode == 0
        assert run(name_server, "send", "orders", "hello").returncode == 0, "routes are for everybody"
        assert run(name_server, "topic", "delete", "--yes", "orders", security=forged).returncode == 1
        refused = run(name_server, "route", "history")
        assert refused.returncode == 1
        assert "code 16" in refused.stderr
        assert run(name_server, "route", "history", security=security).returncode == 0


def test_a_broker_and_commands_reach_a_name_server_that_enforces_tls(tmp_path):
    files = Authority(tmp_path).issue("nameserver")
    text = f"accessKey=operator\nsecretKey={SECRET}\ntlsEnable=true\ntlsClientTrustCertPath={files.trust}\n"
    security = private_file(tmp_path / "own.properties", text)
    tls = {"tlsServerMode": "enforcing", "tlsServerCertPath": files.certificate, "tlsServerKeyPath": files.key}
    with guarded_cluster(tmp_path, security=security, **tls) as name_server:
        health, broker = json.loads(run(name_server, "health", "-o", "json", security=security).stdout)
        assert (health["healthy"], health["brokers"]) == (True, 1)
        assert broker["reachable"] is False, "the broker itself speaks no TLS"
        assert run(name_server, "health").returncode == 3


def test_a_lost_broker_is_forgotten_where_its_operator_may_and_missed_where_not(tmp_path):
    own, reader = (
        private_file(tmp_path / f"{name}.properties", f"accessKey={name}\nsecretKey={SECRET}\n")
        for name in ("operator", "reader")
    )
    with ExitStack() as stack:
        servers = []
        for number, roles in enumerate([{"operator": "admin", "reader": "reader"}, {"operator": "reader"}]):
            accounts = [{"accessKey": "broker", "secretKey": SECRET, "role": "admin"}]
            accounts += [{"accessKey": name, "secretKey": SECRET, "role": role} for name, role in roles.items()]
            file = private_file(tmp_path / f"accounts{number}.json", json.dumps({"accounts": accounts}))
            guard = {"aclEnable": "true", "aclRegistration": "true", "aclFile": file}
            folder = tmp_path / f"ns{number}"
            servers.append(
                stack.enter_context(server("nameserver", folder, bindAddress="127.0.0.1", listenPort=0, **guard))
            )
        asyncio.run(lose_a_broker(servers, private_file(tmp_path / "b", f"accessKey=broker\nsecretKey={SECRET}\n")))
        first, second = servers

        def forget(name_servers, security):
            done = run(name_servers, "broker", "forget", "broker-x", "--yes", security=security)
            return done.returncode, done.stderr

        def missed_at(address):
            return "broker-x" in run(address, "health", security=own).stderr

        wait_for(lambda: missed_at(first) and missed_at(second), "both to miss the broker")
        code, said = forget(first, reader)
        assert (code, "104 needs a signature with the role admin" in said) == (1, True)
        assert (missed_at(first), missed_at(second)) == (True, True)
        code, said = forget(f"{second};{first}", own)
        assert (code, f"no longer missed at {first}\n" in said, f"{second} answered code 16" in said) == (1, True, True)
        assert (missed_at(first), missed_at(second)) == (False, True)


async def lose_a_broker(name_servers, security):
    """Register a broker with each of the NameServers, and break its connection."""
    pool = ConnectionPool(**load_security(security)._asdict())
    for address in name_servers:
        header, body = registration("broker-x")
        expect(await pool.request(address, header, body, timeout_ms=3_000), address)
    await pool.close()


@pytest.mark.interop
def test_every_command_works_where_all_is_encrypted_and_signed(tmp_path):
    commands = [
        (["topic", "create", "orders", "--queues", "1"], "admin"),
        (["topic", "list"], "reader"),
        (["send", "orders", "hello"], "writer"),
        (["topic", "show", "orders"], "reader"),
        (["topic", "route", "orders"], "reader"),
        (["consume", "orders", "--count", "1"], "reader"),
        (["route", "orders"], "reader"),
        (["route", "history"], "reader"),
        (["route", "compare"], "reader"),
        (["cluster"], "reader"),
        (["health"], "reader"),
        (["topic", "delete", "--yes", "orders"], "admin"),
    ]
    with all_guarded(tmp_path) as cluster:
        for words, role in commands:
            file = cluster.security_file(role)
            if words[0] == "topic":  # both ways to name the file
                done = run(cluster.name_servers, *words, "--security", str(file))
            else:
                done = run(cluster.name_servers, *words, security=file)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
            assert run(cluster.name_servers, *words).returncode == 3, words
        assert (
            run(cluster.name_servers, "send", "orders", "no", security=cluster.security_file("reader")).returncode == 1
        )
        assert run(cluster.name_servers, "topic", "list", "--security", str(tmp_path / "nowhere")).returncode == 2


def test_a_push_consumer_is_a_reader_and_its_session_is_never_refused(tmp_path):
    with all_guarded(tmp_path) as cluster:
        writer, reader = (cluster.security(role)._asdict() for role in ("writer", "reader"))
        with Producer("orders-service", cluster.name_servers, **writer) as producer:
            producer.send(Message("orders", b"hello"))
        with PushConsumer("billing", cluster.name_servers, consume_from=ConsumeFrom.FIRST, **reader) as consumer:
            consumer.subscribe("orders")
            assert consumer.next_batch(timeout_ms=30_000).retry()
            again = consumer.next_batch(timeout_ms=30_000)
            assert ([message.body for message in again], again.attempt) == ([b"hello"], 2)
            assert again.commit()
        assert [refused for refused in cluster.broker.running.server.counters.refusals if refused[1] == 16] == []
        with pytest.raises(SendFailed, match="role writer"), Producer("x", cluster.name_servers, **reader) as producer:
            producer.send(Message("orders", b"hello"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accessKey=a\n", "secretKey"),
        ("secretKey=hidden\n", "accessKey"),
        ("accesskey=a\n", "accesskey"),
        ("tlsEnable=maybe\n", "tlsEnable"),
        ("tlsEnable=true\ntlsClientTrustCertPath=/nowhere\n", "/nowhere"),
    ],
)
def test_a_file_that_says_half_of_it_is_refused_without_showing_a_secret(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words) as caught:
        load_security(private_file(tmp_path / "own.properties", text))
    assert "hidden" not in str(caught.value)


def test_a_file_that_others_may_read_is_said(tmp_path, caplog):
    path = private_file(tmp_path / "own.properties", "accessKey=a\nsecretKey=b\n")
    path.chmod(0o644)
    tmp_path.chmod(0o700)
    load_security(path)
    assert caplog.text == "", "nobody else gets into the folder"
    tmp_path.chmod(0o755)
    load_security(path)
    assert "chmod 600" in caplog.text
