"""Bad input is one clear error with the name and the value: exit code 2, nothing on stdout, no traceback."""

import socket

import pytest

from orbitmq.cli.main import main

pytestmark = pytest.mark.real

DIRECTORY, BINARY, MISSING, UNREADABLE = "a-directory", "binary", "missing", "not-a-directory"
BAD_KEY, BAD_HOST = "bad-key", "bad-host"


@pytest.fixture
def call(capfd, tmp_path, monkeypatch):
    """Call `orbitmq` in a folder with files that it cannot use."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / DIRECTORY).mkdir()
    (tmp_path / BINARY).write_bytes(b"listenPort=\xff\xfe\n")
    (tmp_path / BAD_KEY).write_text("listenPort=-5\n")
    (tmp_path / BAD_HOST).write_text("brokerIP1=no-such-host.invalid\nbindAddress=127.0.0.1\nlistenPort=0\n")
    (tmp_path / UNREADABLE).write_text("")

    def started(*words):
        code = main(list(words))
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return started


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("frob", "frob"),
        ("nameserver --frob", "--frob"),
        ("nameserver --port 65536", "65536"),
        ("nameserver --port -2", "-2"),
        ("nameserver --metrics-port x", "'x'"),
        ("nameserver --host no-such-host.invalid --port 0", "bindAddress: 'no-such-host.invalid'"),
        (f"nameserver -c {MISSING}", MISSING),
        (f"nameserver -c {DIRECTORY}", DIRECTORY),
        (f"nameserver -c {BINARY}", BINARY),
        (f"nameserver -c {BAD_KEY}", "listenPort: -5"),
        ("nameserver --shadow h:x", "shadowAddress: 'h:x'"),
        (f"nameserver --data-dir {UNREADABLE}", UNREADABLE),
        ("broker -n h:0", "namesrvAddr: 'h:0'"),
        ("broker -n h --host no-such-host.invalid --port 0", "bindAddress: 'no-such-host.invalid'"),
        (f"broker -n h -c {BAD_KEY}", "listenPort: -5"),
        (f"broker -n h -c {BAD_HOST} --data-dir d", "brokerIP1: 'no-such-host.invalid'"),
        (f"broker -n h --data-dir {UNREADABLE}", UNREADABLE),
        (f"up --data-dir {UNREADABLE}", UNREADABLE),
        ("topic list -n h:x", "name_servers: 'h:x'"),
        ("topic list --timeout-ms 0", "--timeout-ms"),
        ("top --interval nan", "--interval"),
        ("exporter --interval nan", "--interval"),
        ("settle t --seconds nan", "--seconds"),
        ("topic create t --queues 1025", "1025"),
        ("send t --count 0 body", "--count"),
        (f"send t --file {MISSING}", MISSING),
        (f"send t --file {DIRECTORY}", DIRECTORY),
        ("send t --tag a||b body", "tag: 'a||b'"),
        ("consume t --from 99999999999999999999", "--from"),
        ("consume t --from 0001-01-01", "--from"),
        ("route history --count 1001", "1001"),
    ],
)
def test_a_usage_error_names_what_is_wrong(call, words, named):
    code, out, err = call(*words.split())
    java_code = 1 if "Usage" in err else 255  # as Java's NameServer: the command line, or the start
    assert (code, out) == (java_code if words.startswith("nameserver") else 2, "")
    assert named in " ".join(err.split())


@pytest.mark.parametrize(
    "words",
    [
        ("send", "t", "body", "--tag"),
        ("send", "t", "body", "--key"),
        ("send", "t", "body", "--sharding-key"),
        ("topic", "create"),
        ("consume", "t", "--format"),
        ("route", "history"),
        ("topic", "list", "--cluster"),
        ("topic", "list", "-n"),
        ("nameserver", "--port", "0", "--host"),
        ("nameserver", "-c"),
    ],
)
def test_bytes_that_are_no_text_are_refused(call, words, rocketmq_session, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", rocketmq_session.name_servers)
    code, _, err = call(*words, "\udcff")
    assert code == (255 if words[0] == "nameserver" else 2)
    assert "\\udcff" in err or "�" in err


@pytest.mark.parametrize("option", ["--port", "--metrics-port"])
def test_a_busy_port_is_one_sentence_with_the_port(call, option):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = str(holder.getsockname()[1])
        words = {"--port": "0", option: port}
        code, out, err = call(
            "nameserver",
            "--host",
            "127.0.0.1",
            "--log-level",
            "error",
            *(word for pair in words.items() for word in pair),
        )
    assert (code, out) == (255, "")
    assert port in err
    assert err.count("\n") == 1
