import pytest


@pytest.fixture
def broker(orbitmq, served, tmp_path):
    """Call `orbitmq broker` on a free port of this machine, with the test cluster's NameServer."""

    def call(*words):
        return orbitmq("broker", "--port", 0, "--data-dir", tmp_path / "store", "--log-level", "error", *words)

    return call


def test_it_says_who_it_is_and_where_it_listens(broker, served, rocketmq_session, tmp_path):
    addresses = []
    served.inspect = lambda service: addresses.append(service.address)
    ready = broker("--host", "127.0.0.1", "--name", "mine", "-o", "json").json
    assert ready["event"] == "ready"
    assert [ready["broker"]] == addresses
    assert ready["broker"].startswith("127.0.0.1:")
    assert (ready["name"], ready["name_servers"]) == ("mine", rocketmq_session.name_servers)
    assert ready["data_dir"] == str(tmp_path / "store")


def test_metrics_are_told_where_there_are_some(broker, served):
    seen = []
    served.inspect = lambda service: seen.append(service.metrics_address)
    ready = broker("--host", "127.0.0.1", "--metrics-port", 0, "-o", "json").json
    assert [ready["metrics"]] == seen
    assert ready["metrics"].startswith("127.0.0.1:")
    assert "metrics" not in broker("--host", "127.0.0.1", "-o", "json").json


def test_a_command_line_beats_the_file(broker, served, tmp_path):
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=filed\nbindAddress=127.0.0.1\n")
    assert broker("-c", file, "-o", "json").json["name"] == "filed"
    assert broker("-c", file, "--name", "given", "-o", "json").json["name"] == "given"


@pytest.mark.parametrize("given", [None, "east"])
def test_it_belongs_to_the_cluster_that_is_named(broker, served, tmp_path, given):
    clusters = []
    served.inspect = lambda service: clusters.append(service.config.broker_cluster_name)
    assert broker("--host", "127.0.0.1", *(("--cluster", given) if given else ())).code == 0
    assert clusters == [given or "DefaultCluster"]


def test_a_broker_without_a_name_server_is_refused(orbitmq, monkeypatch, tmp_path):
    monkeypatch.delenv("NAMESRV_ADDR")
    result = orbitmq("broker", "--data-dir", tmp_path)
    assert result.code == 2
    assert "--name-servers" in result.err
    assert "no NameServer to register with" in result.err


def test_the_name_server_of_the_file_will_do(orbitmq, served, rocketmq_session, monkeypatch, tmp_path):
    monkeypatch.delenv("NAMESRV_ADDR")
    file = tmp_path / "broker.conf"
    file.write_text(f"namesrvAddr={rocketmq_session.name_servers}\nbindAddress=127.0.0.1\nlistenPort=0\n")
    ready = orbitmq("broker", "-c", file, "--data-dir", tmp_path, "--name", "filed", "-o", "json").json
    assert ready["name_servers"] == rocketmq_session.name_servers


def test_a_list_of_name_servers_elsewhere_will_do(orbitmq, served, rocketmq_session, monkeypatch, tmp_path):
    monkeypatch.delenv("NAMESRV_ADDR")
    listed, file = tmp_path / "name-servers", tmp_path / "broker.conf"
    listed.write_text(rocketmq_session.name_servers)
    file.write_text(
        f"fetchNamesrvAddrByAddressServer=true\naddressServer={listed}\nbindAddress=127.0.0.1\nlistenPort=0\n"
    )
    ready = orbitmq("broker", "-c", file, "--data-dir", tmp_path, "--name", "filed", "-o", "json").json
    assert ready["name_servers"] == str(listed)


def test_an_option_that_runs_a_broker_does_not_stand_before_a_command(orbitmq):
    wrong = orbitmq("broker", "--name", "broker-a", "status")
    assert (wrong.code, wrong.out) == (2, "")
    assert "options of `status` stand behind that word" in wrong.err


def test_single_settings_win_over_the_file(orbitmq, served, tmp_path, rocketmq_session):
    file = tmp_path / "broker.conf"
    file.write_text("fileReservedTime=24\nmaxMessageSize=1000000\n")
    seen = {}
    served.inspect = lambda broker: seen.update(
        hours=broker.config.file_reserved_time, size=broker.config.max_message_size
    )
    words = ("-c", file, "--port", 0, "--data-dir", tmp_path / "data", "--set", "fileReservedTime=48")
    assert orbitmq("broker", *words).code == 0
    assert seen == {"hours": 48, "size": 1_000_000}
    assert orbitmq("broker", *words, "--set", "noSuchKey=1").code == 2
