import json
import socket

import pytest

from orbitmq.address import parse_address
from orbitmq.broker.registration.addresses import reserved_port


@pytest.fixture
def nameserver(orbitmq, served, tmp_path):
    """Call `orbitmq nameserver` on a free port of this machine."""

    def call(*words):
        options = ("--host", "127.0.0.1", "--port", 0, "--data-dir", tmp_path, "--log-level", "error")
        return orbitmq("nameserver", *options, *words)

    return call


def test_it_says_where_it_listens(nameserver, served):
    def connect(service):
        with socket.create_connection(parse_address(service.address)):
            pass

    served.inspect = connect
    result = nameserver()
    assert result.code == 0
    assert result.out.startswith(f"ready nameserver={served.services[0].address} pid=")
    ready = nameserver("-o", "json").json
    assert (ready["event"], ready["nameserver"]) == ("ready", served.services[1].address)
    assert "metrics" not in ready


def test_metrics_are_told_where_there_are_some(nameserver, served):
    ready = nameserver("--metrics-port", 0, "-o", "json").json
    assert ready["metrics"].startswith("127.0.0.1:")
    assert ready["metrics"] != ready["nameserver"]


def test_a_command_line_beats_the_file_and_the_file_the_defaults(orbitmq, tmp_path):
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPort=1234\nscanNotActiveBrokerInterval=10000\n")
    words = ("nameserver", "-c", file, "--port", 4321, "--data-dir", tmp_path / "data", "--shadow", "h:1", "-p")
    printed = orbitmq(*words)
    assert printed.code == 0
    assert {"listenPort=4321", "scanNotActiveBrokerInterval=10000"} <= set(printed.out.splitlines())
    settings = orbitmq(*words, "-o", "json").json
    assert settings["listenPort"] == "4321"
    assert settings["kvConfigPath"] == str(tmp_path / "data" / "kvConfig.json")
    assert settings["shadowAddress"] == "h:1"
    assert settings["configStorePath"] != str(tmp_path / "data" / "namesrv.properties")


def test_without_a_file_changes_are_saved_in_the_data_dir(orbitmq, tmp_path):
    settings = orbitmq("nameserver", "--data-dir", tmp_path, "-p", "-o", "json").json
    assert settings["configStorePath"] == str(tmp_path / "namesrv.properties")
    assert settings["listenPort"] == "9876"


def test_logs_begin_at_the_level_that_is_asked_for(orbitmq, nameserver, served):
    assert '"level"' not in nameserver().err
    assert '"level": "info"' in nameserver("--log-level", "info").err
    assert json.loads(nameserver("--log-level", "debug").err.splitlines()[0])["level"] in ("debug", "info")


def test_a_controller_runs_in_the_process_where_the_file_asks_for_one(orbitmq, served, tmp_path):
    def connect(service):
        for address in (service.address, service.controller.consensus.peers[1]):
            with socket.create_connection(parse_address(address)):
                pass

    served.inspect = connect
    with reserved_port("127.0.0.1", 0, has_vip=False) as port:
        file = tmp_path / "namesrv.conf"
        file.write_text(
            f"enableControllerInNamesrv=true\ncontrollerDLegerPeers=n0-127.0.0.1:{port}\n"
            f"controllerStorePath={tmp_path / 'controller'}\naclFile={tmp_path / 'accounts.json'}\n"
        )
    options = ("--host", "127.0.0.1", "--port", 0, "--data-dir", tmp_path, "--strict", "--log-level", "error")
    result = orbitmq("nameserver", "-c", file, *options)
    assert (result.code, result.err) == (0, "")
    assert f"controller=127.0.0.1:{port}" in result.out
