"""Consumer groups as administrators see and change them: who is in them, how far they are, where they go on."""
