"""Users and rules of a broker (ACL 2.0): the user of a request, and whether it is allowed."""
