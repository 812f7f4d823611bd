"""The command line, called in the process of the tests."""

import json
import logging
import re
import signal

import pytest

from orbitmq.cli.main import main


class Result:
    """What one command did: exit code, stdout and stderr."""

    def __init__(self, code, out, err):
        self.code = int(code)
        self.raw = out
        self.out = out.decode(errors="replace")
        self.err = err.decode(errors="replace")

    @property
    def rows(self):
        """The words of each line of a plain table, without its header."""
        return [line.split() for line in self.out.splitlines()[1:]]

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def json_lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def _same_logging_afterwards():
    """Commands that run servers set logging up for the whole process, which here is pytest's."""
    root = logging.getLogger()
    handlers, levels = root.handlers[:], {logger: logger.level for logger in _loggers()}
    yield
    root.handlers[:] = handlers
    for logger in _loggers():
        logger.setLevel(levels.get(logger, logging.NOTSET))


def _loggers():
    known = logging.getLogger().manager.loggerDict.values()
    return [logging.getLogger(), *(logger for logger in known if isinstance(logger, logging.Logger))]


@pytest.fixture
def interrupts():
    """SIGINT as a command's own process meets it: in this one Spark may have taken it for itself."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def orbitmq(capfdbinary, monkeypatch, rocketmq_session):
    """Call `orbitmq` in this process, with the session's cluster as the one that is meant."""
    monkeypatch.setenv("NAMESRV_ADDR", rocketmq_session.name_servers)

    def call(*arguments):
        capfdbinary.readouterr()
        code = main([str(argument) for argument in arguments])
        return Result(code, *capfdbinary.readouterr())

    return call


@pytest.fixture
def topic(orbitmq, request):
    """A topic of this test's own, with two queues."""
    name = re.sub(r"[^a-z0-9_]", "-", request.node.name)[-100:]
    assert orbitmq("topic", "create", name, "--queues", 2).code == 0
    return name
