"""Claims about looking names up. Only addresses are looked up here: no test may need a name service."""

from __future__ import annotations

import socket

import pytest

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.net.name_lookup import looked_up, resolve


@each_case(socket.gaierror(-2, "not known"), UnicodeError("label too long"))
def test_an_unknown_name_names_its_setting(error: Exception):
    with pytest.raises(ConfigError, match=r"brokerIP1: 'nowhere' .* looked up"), looked_up("brokerIP1", "nowhere"):
        raise error


def test_other_errors_pass():
    with pytest.raises(OSError, match="in use"), looked_up("bindAddress", "127.0.0.1"):
        raise OSError(98, "in use")


@pytest.mark.parametrize("address", ["127.0.0.1:9876", "[::1]:9876"])
async def test_an_address_means_itself(address: str):
    assert await resolve(address) == [address]
