"""The way between Spark and the connector: errors as sentences, the options of tables."""
