"""The client library: producers, consumers and the routes below them."""
