"""`orbitmq dashboard`."""

import socket

import pytest

from orbitmq.address import parse_address

pytestmark = pytest.mark.real


def test_it_says_where_it_listens(orbitmq, served):
    def connect(service):
        with socket.create_connection(parse_address(service.address)):
            pass

    served.inspect = connect
    ready = orbitmq("dashboard", "--port", 0, "-o", "json").json
    assert ready["dashboard"] == f"http://{served.services[0].address}/"


def test_it_listens_on_this_machine_alone(orbitmq, served):
    refused = orbitmq("dashboard", "--host", "0.0.0.0", "--port", 0)
    assert refused.code != 0
    assert "host" in refused.err
    assert "without a login" in refused.err
    assert served.services == []


def test_a_port_that_is_in_use_is_named(orbitmq, served):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = orbitmq("dashboard", "--port", taken.getsockname()[1])
    assert refused.code != 0
    assert "Traceback" not in refused.err
