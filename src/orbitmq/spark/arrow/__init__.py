"""Records in columnar form: bytes of pull answers in, Arrow columns out. Pure."""
