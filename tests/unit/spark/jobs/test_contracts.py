"""Messages that the quarantine topic cannot have."""

from __future__ import annotations

from cases import each_case
from orbitmq.spark.jobs.contracts import why_not_sent


@each_case(
    (b"{", "tag", "k1 k2", {"own": "value"}, None), (b"", None, None, None, None), (b"{", "a||b", None, {}, "tags"),
    (b"{", None, None, {"own": "\x02"}, "properties"), (b"{", None, None, {"own": "x" * 32_200}, "properties"),
)  # fmt: skip
def test_what_cannot_be_sent_has_a_reason_that_names_the_column(body, tags, keys, properties, named):
    reason = why_not_sent(body, tags, keys, properties)
    assert (reason is None) == (named is None)
    assert reason is None or reason.startswith(f"{named}:")
