"""Sends, whichever way they come: where a message goes, how its properties are stored, and when it is answered."""
