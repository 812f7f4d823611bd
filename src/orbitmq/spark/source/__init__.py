"""The reading side of the data source, made in the driver."""
