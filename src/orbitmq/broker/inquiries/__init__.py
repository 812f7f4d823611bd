"""Questions of administrators to running consumers, which their broker passes on."""
