"""`orbitmq exporter`."""

from __future__ import annotations

import socket

import pytest

from orbitmq.address import parse_address

pytestmark = pytest.mark.real


def test_it_says_where_its_metrics_are_and_listens_on_this_machine_alone(orbitmq, served):
    def connect(service):
        with socket.create_connection(parse_address(service.address)):
            pass

    served.inspect = connect
    ready = orbitmq("exporter", "--port", 0, "-o", "json").json
    assert ready["exporter"] == f"http://{served.services[0].address}/metrics"
    assert served.services[0].address.startswith("127.0.0.1:")


def test_a_port_that_is_in_use_is_named(orbitmq, served):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = orbitmq("exporter", "--port", taken.getsockname()[1])
    assert refused.code != 0
    assert "Traceback" not in refused.err
