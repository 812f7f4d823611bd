"""`orbitmq store check` on the directory of a Java broker: while it runs, after its stop, and after `kill -9`."""

from __future__ import annotations

import pytest

from interop.peers import JavaBroker, JavaNameServer, message
from orbitmq.cli.main import main

SIZES = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 600}
TOPIC = "checked"


@pytest.fixture
def java_broker(jars, tmp_path):
    with JavaNameServer(tmp_path / "nameserver") as name_server:
        broker = JavaBroker(tmp_path / "java", name_server.address, name="store-check", properties=SIZES)
        yield broker, name_server.address
        broker.kill()


def send(java, address, count):
    producer = java.producer("store-check", address)
    producer.send(*(message(TOPIC, b"%06d " % number * 30, tag=f"t{number % 3}") for number in range(count)))
    producer.stop()


@pytest.mark.proof
def test_a_store_of_javas_has_nothing_wrong_and_its_damage_is_named(java, java_broker, capfd):
    broker, address = java_broker
    broker.start()
    send(java, address, 500)
    check = ["store", "check", str(broker.store)]
    assert main(check) == 0, capfd.readouterr()
    assert "while its broker runs" in capfd.readouterr().err
    broker.stop()
    assert main(check) == 0, capfd.readouterr()

    broker.start()
    send(java, address, 200)
    broker.kill()
    assert main(check) == 0, capfd.readouterr()

    queue = next(broker.store.glob(f"consumequeue/{TOPIC}/*/{0:020}"))
    content = queue.read_bytes()
    queue.write_bytes(content[:100] + b"\xee" * 20 + content[120:])
    capfd.readouterr()
    assert main([*check, "-o", "json"]) == 1
    out = capfd.readouterr().out
    assert str(queue.relative_to(broker.store)) in out
    assert out.count('"wrong"') == 1

    assert main(["store", "rebuild", str(broker.store)]) == 0
    assert main(check) == 0, capfd.readouterr()
    assert queue.read_bytes() == content
