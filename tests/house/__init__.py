"""The order of the house, counted: `make house` prints the table, `test_house.py` holds what can be held."""
