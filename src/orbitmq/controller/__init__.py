"""The controller: elects the masters of broker groups, as Java's brokers in controller mode know it."""
