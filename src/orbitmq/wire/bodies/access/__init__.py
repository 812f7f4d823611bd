"""Bodies about users and their rules, as mqadmin sends and reads them."""
