"""Servers on the command line: their options and their life."""

import asyncio
import io
import json
import os
import resource
import signal

import pytest

from orbitmq.cli.servers.serving import raise_descriptor_limit, serve_until_signal, show_ready
from orbitmq.cli.terminal.output import Format


@pytest.fixture
def limits():
    """The process's limits, put back afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_server_takes_every_descriptor_that_it_may_have(limits):
    _soft, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    raise_descriptor_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_a_system_that_refuses_is_left_alone(limits, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (1, resource.RLIM_INFINITY))

    def refuse(_kind, _limits):
        raise ValueError("not allowed to raise maximum limit")

    with monkeypatch.context() as patched:
        patched.setattr(resource, "setrlimit", refuse)
        raise_descriptor_limit()
    monkeypatch.undo()


class FakeService:
    """A service that notes what is done to it."""

    def __init__(self, error=None):
        self.done = []
        self._error = error

    async def start(self):
        self.done.append("start")
        if self._error is not None:
            raise self._error

    async def stop(self):
        self.done.append("stop")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_service_runs_until_a_signal_and_is_announced_once_it_listens(limits, number):
    service = FakeService()

    def announce(served):
        assert served is service
        service.done.append("announce")
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    await serve_until_signal(lambda: service, announce)
    assert service.done == ["start", "announce", "stop"]
    assert signal.getsignal(number) in (before, signal.SIG_DFL, signal.default_int_handler)


async def test_a_service_is_made_with_every_descriptor_that_it_may_have(limits):
    _soft, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    found = []

    def make():
        found.append(resource.getrlimit(resource.RLIMIT_NOFILE))
        return FakeService()

    await serve_until_signal(make, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert found == [(hard, hard)]


async def test_a_second_signal_kills(limits):
    class Slow(FakeService):
        async def stop(self):
            for number in (signal.SIGINT, signal.SIGTERM):
                self.done.append(signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler))

    service = Slow()
    await serve_until_signal(lambda: service, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert service.done == ["start", True, True]


async def test_a_service_that_does_not_start_is_stopped_and_not_announced(limits):
    service = FakeService(OSError("the port is taken"))
    with pytest.raises(OSError, match="taken"):
        await serve_until_signal(lambda: service, lambda _: service.done.append("announce"))
    assert service.done == ["start", "stop"]


async def test_a_service_is_stopped_when_its_task_is_cancelled(limits):
    service, announced = FakeService(), asyncio.Event()
    serving = asyncio.create_task(serve_until_signal(lambda: service, lambda _: announced.set()))
    await announced.wait()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert service.done == ["start", "stop"]


def test_the_ready_line_reaches_a_program_immediately(monkeypatch):
    pipe = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BufferedWriter(pipe)))
    show_ready(Format.TABLE, broker="a:1")
    assert pipe.getvalue().startswith(b"ready broker=a:1")


def test_the_ready_line_is_one_that_a_shell_can_split(capsys):
    show_ready(Format.TABLE, broker="a:1", data_dir="/my data")
    assert capsys.readouterr().out == f"ready broker=a:1 data_dir='/my data' pid={os.getpid()}\n"
    show_ready(Format.JSON, broker="a:1")
    out = capsys.readouterr().out
    assert json.loads(out) == {"event": "ready", "pid": os.getpid(), "broker": "a:1"}
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("up", "--nameserver-port", 65536), "65536"),
        (("up", "--broker-port", -1), "-1"),
        (("broker", "--port", 65536), "65536"),
        (("broker", "-c", "no-such-file"), "no-such-file"),
        (("broker", "-c", "."), "'.'"),
        (("up", "--log-level", "loud"), "loud"),
    ],
)
def test_an_option_out_of_its_range_is_named(orbitmq, words, named):
    result = orbitmq(*words)
    assert (result.code, result.out) == (2, "")
    assert named in result.err


def test_the_last_port_is_a_port(orbitmq, tmp_path):
    settings = orbitmq("nameserver", "--data-dir", tmp_path, "--port", 65535, "-p", "-o", "json").json
    assert settings["listenPort"] == "65535"
