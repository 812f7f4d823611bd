"""What servers on the command line share."""

import resource

import pytest

from orbitmq.cli.serving import raise_descriptor_limit


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
