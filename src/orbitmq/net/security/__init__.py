"""Signatures and TLS, on a server's side and on a client's."""
