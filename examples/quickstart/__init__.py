"""A whole pipeline on real data that checks itself: `make quickstart`, or `python -m examples.quickstart`."""
