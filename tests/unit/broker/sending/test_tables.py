"""Claims about the sender's host, as messages carry it."""

from __future__ import annotations

import pytest

from orbitmq.broker.sending.tables import host_of
from orbitmq.model.message import Host


@pytest.mark.parametrize(("remote", "host"), [("10.0.0.9:5", Host("10.0.0.9", 5)), ("[::1]:65535", Host("::1", 65535))])
def test_a_peer_becomes_a_host(remote: str, host: Host) -> None:
    assert host_of(remote) == host
