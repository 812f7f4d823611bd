import pytest

from orbitmq import Credentials, Message, NoNameServer, Producer, PullConsumer, PushConsumer
from orbitmq.net.security.tls import ServerTls, TlsMode, client_context
from orbitmq.wire.signature import is_signed_by
from unit.net.certificates import Authority


def clients(cluster, **settings):
    return [kind("group", cluster.name_servers, **settings) for kind in (Producer, PushConsumer, PullConsumer)]


async def use(cluster, **settings):
    """Send with one client and receive with the two others."""
    producer, consumer, reader = clients(cluster, **settings)
    consumer.subscribe("orders")
    async with producer, consumer, reader:
        await producer.send(Message("orders", b"hello"))
        await producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])
        assert (await consumer.next_batch()).commit()
        reader.assign(await reader.queues("orders"))
        assert await reader.poll(10_000)


async def test_every_request_of_every_client_is_signed(cluster):
    cluster.topic("orders", count=1)
    await use(cluster, credentials=Credentials("me", "a secret"))
    assert len(cluster.a.commands) > 5
    for command in cluster.a.commands:
        assert command.ext_fields["AccessKey"] == "me"
        assert is_signed_by(command.ext_fields, command.body, "a secret")


async def test_the_secret_is_in_no_error_and_no_repr(cluster):
    await cluster.name_server.stop()
    credentials = Credentials("me", "a secret")
    async with Producer("group", cluster.name_servers, credentials=credentials) as producer:
        with pytest.raises(NoNameServer) as caught:
            await producer.send(Message("orders", b"x"))
    assert "secret" not in f"{caught.value!r}{credentials!r}".replace("secret_key", "")


async def test_every_client_speaks_tls(cluster, tmp_path):
    files = Authority(tmp_path).issue("server")
    for server in (cluster.name_server, cluster.a):
        await server.stop()
        server.tls = ServerTls(TlsMode.ENFORCING, files)
        await server.start()
    cluster.topic("orders", count=1)
    await use(cluster, tls=client_context(files))


async def test_a_server_that_wants_tls_and_a_client_that_does_not_speak_it_end_in_an_error(cluster, tmp_path):
    await cluster.name_server.stop()
    cluster.name_server.tls = ServerTls(TlsMode.ENFORCING, Authority(tmp_path).issue("server"))
    await cluster.name_server.start()
    async with Producer("group", cluster.name_servers) as producer:
        with pytest.raises(NoNameServer, match=cluster.name_server.address):
            await producer.send(Message("orders", b"x"))
