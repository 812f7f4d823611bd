"""Tables of Parquet files that grow by a topic's messages: their streams, and their small files put together."""
