r"""SQL92 expressions over the properties of messages: compiled once, then asked for each message.

    compiled = compile_sql92("price > 10 AND region IN ('eu', 'us')")
    compiled.matches(b"price\x0112\x02region\x01eu\x02")   # True

The language is Java's (org.apache.rocketmq.filter): its tokens, its types and its three-valued logic. See
docs/reference/sql92.md.
"""

from orbitmq.filter.sql92 import DEPTH_MAX, LENGTH_MAX, PropertyFilter, check_sql92, compile_sql92

__all__ = ["DEPTH_MAX", "LENGTH_MAX", "PropertyFilter", "check_sql92", "compile_sql92"]
