"""A broker's addresses, and how every NameServer learns of it."""
