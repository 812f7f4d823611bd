"""Timers with Java on either side: delivered at their time, taken back, and in directories that change hands."""

from __future__ import annotations

import time

import pytest

from interop.drain import read_all
from interop.peers import JavaBroker, JavaNameServer
from orbitmq import Message
from orbitmq.blocking import Producer

FAST = {"timer_precision_ms": 100, "recall_message_enable": True}


@pytest.fixture(scope="module")
def java_name_server(jars, tmp_path_factory):
    with JavaNameServer(tmp_path_factory.mktemp("nameserver")) as name_server:
        yield name_server


@pytest.fixture(scope="module")
def java_broker(java_name_server, tmp_path_factory):
    properties = {"timerPrecisionMs": 100, "recallMessageEnable": "true"}
    broker = JavaBroker(tmp_path_factory.mktemp("java"), java_name_server.address, name="timers", properties=properties)
    broker.start()
    yield broker
    broker.kill()


def test_our_timers_are_delivered_by_a_java_broker(java_broker, java_name_server, name):
    began = time.time() * 1000
    with Producer("p", java_name_server.address) as producer:
        sent = producer.send(Message(name, b"later", delay_ms=1500, tag="t", keys=("k",)))
        print(sent)
    (read,) = read_all(java_name_server.address, name, 1)
    print(dict(read.properties), read.stored_at_ms - began)
