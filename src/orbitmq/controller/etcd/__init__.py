"""etcd instead of a log of our own: what controllers agree upon is kept there (controllerType=etcd)."""
