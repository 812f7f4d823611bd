"""The quick form of `make proof ARGS="--only compat/nameserver"`: a few thousand random requests to Java's NameServer and ours, answers compared."""

import pytest

from compat.differential import Comparison, both_name_servers
from compat.stream import Stream
from interop.peers import require_java
from seeds import SEED

QUICK = 4_000


@pytest.mark.java
def test_our_name_server_answers_as_javas_does(tmp_path):
    require_java()
    with both_name_servers(tmp_path) as (java, ours):
        comparison = Comparison(java, ours)
        comparison.run(Stream(SEED), QUICK)
        comparison.close()
    assert comparison.differences == []
    assert comparison.counts.total() >= QUICK


def test_a_stream_follows_from_its_seed_alone():
    assert list(Stream(7).steps(500)) == list(Stream(7).steps(500))
    assert list(Stream(7).steps(500)) != list(Stream(8).steps(500))
