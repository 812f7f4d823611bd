"""Topics as administrators see them: how each broker has them, and how that is changed."""
