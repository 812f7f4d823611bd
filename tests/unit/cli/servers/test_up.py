import socket
from pathlib import Path

from orbitmq.address import parse_address
from orbitmq.cli.servers.up import default_data_dir


def up(orbitmq, tmp_path, *words):
    return orbitmq("up", "--nameserver-port", 0, "--broker-port", 0, "--data-dir", tmp_path, *words)


def test_it_says_where_both_listen_and_what_to_export(orbitmq, served, tmp_path):
    seen = []
    served.inspect = lambda pair: seen.append((pair.name_server_address, pair.broker_address))
    result = up(orbitmq, tmp_path)
    assert result.code == 0
    ((nameserver, broker),) = seen
    ready, export = result.out.splitlines()
    assert ready.startswith(f"ready nameserver={nameserver} broker={broker} data_dir={tmp_path} pid=")
    assert export == f"export NAMESRV_ADDR={nameserver}"


def test_programs_get_one_object(orbitmq, served, tmp_path):
    ready = up(orbitmq, tmp_path, "-o", "json").json
    assert (ready["event"], ready["data_dir"]) == ("ready", str(tmp_path))
    assert ready["nameserver"] == served.services[0].name_server_address


def test_metrics_are_told_where_there_are_some(orbitmq, served, tmp_path):
    words = ("--nameserver-metrics-port", 0, "--broker-metrics-port", 0, "-o", "json")
    ready = up(orbitmq, tmp_path, *words).json
    addresses = [ready[name] for name in ("nameserver", "broker", "nameserver_metrics", "broker_metrics")]
    assert len(set(addresses)) == 4
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert not [name for name in up(orbitmq, tmp_path, "-o", "json").json if "metrics" in name]


def test_both_keep_their_files_under_the_data_dir(orbitmq, served, tmp_path):
    up(orbitmq, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"broker-a"}
    assert (tmp_path / "broker-a" / "config").is_dir()


def test_messages_are_kept_where_the_desktop_keeps_data(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_data_dir() == Path("/data/orbitmq")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_data_dir() == Path("/home/me/.local/share/orbitmq")


def test_the_dashboard_shows_the_cluster_that_was_started_with_it(orbitmq, served, tmp_path):
    def connect(service):
        with socket.create_connection(
            parse_address(service.ready_fields["dashboard"].removeprefix("http://").rstrip("/"))
        ):
            pass

    served.inspect = connect
    ready = up(orbitmq, tmp_path, "--dashboard", "--dashboard-port", 0, "-o", "json").json
    assert ready["dashboard"].startswith("http://127.0.0.1:")
    assert ready["broker"].startswith("127.0.0.1:")


def test_the_broker_has_the_settings_of_a_file_and_those_that_are_set(orbitmq, served, tmp_path):
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=orders-broker\nfileReservedTime=24\nmaxMessageSize=1000000\nlistenPort=1\n")
    seen = {}

    def look(pair):
        config = pair._broker_config
        seen.update(name=config.broker_name, hours=config.file_reserved_time, size=config.max_message_size)

    served.inspect = look
    assert up(orbitmq, tmp_path, "-c", file, "--set", "maxMessageSize=2000000").code == 0
    assert seen == {"name": "orders-broker", "hours": 24, "size": 2_000_000}


def test_settings_that_there_are_not_or_that_options_choose_are_refused(orbitmq, served, tmp_path):
    for words in (("--set", "noSuchKey=1"), ("--set", "listenPort=1"), ("--set", "x"), ("--set", "fileReservedTime=x")):
        result = up(orbitmq, tmp_path, *words)
        assert result.code == 2, words
    file = tmp_path / "broker.conf"
    file.write_text("noSuchKey=1\n")
    assert up(orbitmq, tmp_path, "-c", file).code == 2
    assert served.services == []
