"""The fast path of small requests that come in masses, which are served and answered without building a command."""
