"""Changes of users and rules: kept, or refused and then not made."""

from __future__ import annotations

import logging

from orbitmq.broker.access.control import AccessControl
from orbitmq.broker.access.directory import Directory
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected

log = logging.getLogger(__name__)


def keep(access: AccessControl, directory: Directory) -> None:
    """Keep a changed directory.

    Raises:
        Rejected: the disk refused, and nothing has changed.
    """
    try:
        access.change(directory)
    except OSError as error:
        log.error("a change of users or rules was not kept: %s", error)
        raise Rejected(ResponseCode.SYSTEM_ERROR, "An system error occurred, please try again later.") from error
