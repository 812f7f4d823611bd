import ipaddress

from orbitmq.client.session.client_id import client_id, local_ip, unique_instance, unique_key_seed


def test_the_address_is_the_one_that_reaches_the_peer():
    assert local_ip("127.0.0.1:9876") == "127.0.0.1"


def test_without_a_peer_that_can_be_reached_it_is_the_loopback():
    assert local_ip() == "127.0.0.1"
    assert local_ip("no address", "127.0.0.1:1") == "127.0.0.1"
    assert ipaddress.ip_address(local_ip("192.0.2.1:9876"))


def test_every_client_object_has_a_name_of_its_own():
    assert len({unique_instance() for _ in range(100)}) == 100
    assert client_id("10.0.0.1", "x") == "10.0.0.1@x"


def test_seeds_are_32_bits_and_differ():
    seeds = {unique_key_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert max(seeds) < 2**32
