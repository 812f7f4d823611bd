import pytest


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
