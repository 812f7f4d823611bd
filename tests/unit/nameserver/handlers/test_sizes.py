"""Claims about the sizes of requests: each code has a limit, and the documentation says which."""

from __future__ import annotations

import re
from pathlib import Path

from orbitmq.codes import RequestCode
from orbitmq.nameserver.handlers import handlers

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "nameserver-requests.md"


def test_the_reference_lists_every_request_with_the_size_that_its_body_may_have():
    rows = re.findall(r"^\| ([0-9]+) \| ([A-Z_]+) \| ([0-9,]+) \|", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {int(code): (name, int(size.replace(",", ""))) for code, name, size in rows}
    assert listed == {code: (RequestCode(code).name, size) for code, size in handlers.body_sizes.items()}
