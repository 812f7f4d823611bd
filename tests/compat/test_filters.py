"""The quick form of `make proof ARGS="--only compat/filters"`: some thousand random expressions through Java's SQL92 filter and ours."""

import pytest

from compat.filters import Comparison, Generator
from interop.peers import JavaClients, require_java
from seeds import SEED

QUICK = 5_000


@pytest.mark.java
def test_our_filter_says_of_every_message_what_javas_says(tmp_path):
    require_java()
    java = JavaClients(tmp_path)
    comparison = Comparison(java)
    comparison.run(Generator(SEED), QUICK)
    java.close()
    assert comparison.differences == []
    assert comparison.counts.total() == QUICK
    assert min(comparison.counts[verdict] for verdict in ("true", "false", "null", "incomparable", "invalid")) > 100


def test_pairs_follow_from_their_seed_alone():
    assert list(Generator(7).pairs(500)) == list(Generator(7).pairs(500))
    assert list(Generator(7).pairs(500)) != list(Generator(8).pairs(500))
