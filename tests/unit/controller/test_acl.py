"""Roles of requests to a controller."""

from orbitmq.controller.acl import _ROLES, make_server_security
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.handlers import handlers


def test_every_request_needs_a_role():
    assert set(_ROLES) == set(handlers.codes)


def test_an_open_port_warns():
    assert "who leads a broker group" in make_server_security(ControllerConfig()).warnings[0]
    assert not make_server_security(ControllerConfig(bind_address="127.0.0.1")).warnings
