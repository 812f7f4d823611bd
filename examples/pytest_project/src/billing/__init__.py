"""Bills orders."""
