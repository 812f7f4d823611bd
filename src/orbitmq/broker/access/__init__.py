"""Users and rules of a broker (ACL 2.0): who a request comes from, and whether it is allowed what it asks for."""
