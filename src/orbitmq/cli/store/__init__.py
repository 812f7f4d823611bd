"""`orbitmq store …`: the files of a broker that is stopped, looked at and repaired."""
