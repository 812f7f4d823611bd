"""A controller's settings, and the roles that they ask of requests."""

import pytest

from cases import each_case
from orbitmq.controller.app import _ROLES, make_server_security
from orbitmq.controller.config import WITHOUT_EFFECT, ControllerConfig
from orbitmq.controller.handlers import handlers
from orbitmq.errors import ConfigError

THREE = "n0-10.0.0.1:9878; n1-[::1]:9878 ;n2-host:9878;"


def test_one_of_the_peers_is_this_controller():
    config = ControllerConfig(controller_d_leger_peers=THREE, controller_d_leger_self_id="n1")
    assert config.peers == {"n0": "10.0.0.1:9878", "n1": "[::1]:9878", "n2": "host:9878"}
    assert config.address == "[::1]:9878"


@each_case("", "n0", "n0:a:1", "-a:1", "n0-a", "n0-a:99999", "n0-a:1;n0-b:1", "n0-a:1;n1-a:1")
def test_peers_that_are_none_are_refused(peers):
    with pytest.raises(ConfigError, match="controllerDLeger"):
        ControllerConfig(controller_d_leger_peers=peers)


@each_case(
    {"controller_d_leger_self_id": "n7"},
    {"controller_d_leger_group": ""},
    {"scan_not_active_broker_interval": 1},
    {"scan_inactive_master_interval": 0},
    {"metrics_address": ""},
    {"bind_address": " "},
    {"tls_server_mode": "perhaps"},
    {"controller_type": "Etcd"},
    {"controller_type": "etcd"},
    {"etcd_lease_seconds": 0},
    {"controller_type": "etcd", "etcd_endpoints": "a:2379"},
    {"controller_type": "etcd", "etcd_endpoints": "ftp://a:2379"},
    {"controller_type": "etcd", "etcd_endpoints": "http://a"},
    {"controller_type": "etcd", "etcd_endpoints": "http://a:1", "etcd_prefix": "/x"},
    {"controller_type": "etcd", "etcd_endpoints": "http://a:1", "controller_d_leger_group": "a/b"},
    {"controller_type": "etcd", "etcd_endpoints": "http://a:1", "etcd_user": "u"},
)
def test_a_value_that_is_not_allowed_is_refused(values):
    with pytest.raises(ConfigError):
        ControllerConfig(**values)


def test_javas_keys_are_read(tmp_path, caplog):
    path = tmp_path / "controller.conf"
    path.write_text(
        "controllerDLegerGroup=g\ncontrollerDLegerPeers=n0-a:1\ncontrollerDLegerSelfId=n0\n"
        f"controllerStorePath={tmp_path}\nenableElectUncleanMaster=true\nmappedFileSize=1\nnobodyKnows=1\n"
        "controllerType=jRaft\n"
    )
    config = ControllerConfig.from_properties(path, metrics_port=0)
    assert (config.controller_d_leger_group, config.address, config.metrics_port) == ("g", "a:1", 0)
    assert (config.enable_elect_unclean_master, config.config_store_path) == (True, path)
    assert "nobodyKnows" in caplog.text
    assert "mappedFileSize" not in caplog.text
    assert "controllerType" in caplog.text


def test_endpoints_of_etcd_are_read():
    endpoints = " http://a:2379/ ;https://[::1]:2379;http://a:2379"
    config = ControllerConfig.from_mapping({"controllerType": "etcd", "etcdEndpoints": endpoints})
    assert config.uses_etcd
    assert config.endpoints == ("http://a:2379", "https://[::1]:2379")


def test_settings_are_written_as_they_are_read():
    config = ControllerConfig(enable_elect_unclean_master=True)
    assert ControllerConfig.from_mapping(config.to_properties()) == config
    assert not WITHOUT_EFFECT & config.to_properties().keys()


def test_a_change_leaves_unknown_keys_out():
    changed = ControllerConfig().changed_by({"scanInactiveMasterInterval": "70", "nobodyKnows": "1"})
    assert changed.scan_inactive_master_interval == 70


def test_every_request_needs_a_role():
    assert set(_ROLES) == set(handlers.codes)


def test_an_open_port_warns():
    assert "about masters of broker groups" in make_server_security(ControllerConfig()).warnings[0]
    assert not make_server_security(ControllerConfig(bind_address="127.0.0.1")).warnings
