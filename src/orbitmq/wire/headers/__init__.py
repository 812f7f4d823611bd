"""Typed headers of every request code orbitmq speaks, one module per family. Importing this binds all codes."""

from orbitmq.wire.headers.admin import *  # noqa: F403
from orbitmq.wire.headers.groups import *  # noqa: F403
from orbitmq.wire.headers.kv import *  # noqa: F403
from orbitmq.wire.headers.nameserver import *  # noqa: F403
from orbitmq.wire.headers.offsets import *  # noqa: F403
from orbitmq.wire.headers.pull import *  # noqa: F403
from orbitmq.wire.headers.send import *  # noqa: F403
from orbitmq.wire.headers.topics import *  # noqa: F403
