"""Administration: every administrative call, typed."""

from orbitmq.admin.client import AdminClient

__all__ = ["AdminClient"]
