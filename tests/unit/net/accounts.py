"""Accounts for tests: one of each role, and those that only claim a name."""

from __future__ import annotations

import json
from pathlib import Path

from orbitmq.wire.signature import Credentials

ADMIN = Credentials("admin-key", "admin-secret")
WRITER = Credentials("writer-key", "writer-secret")
READER = Credentials("reader-key", "reader-secret")
FORGER = Credentials("admin-key", "another-secret")
STRANGER = Credentials("stranger", "admin-secret")


def write_accounts(folder: Path, *, admin: Credentials = ADMIN) -> Path:
    path = folder / "accounts.json"
    entries = [
        {"accessKey": admin.access_key, "secretKey": admin.secret_key, "role": "admin"},
        {"accessKey": WRITER.access_key, "secretKey": WRITER.secret_key, "role": "writer"},
        {"accessKey": READER.access_key, "secretKey": READER.secret_key},
    ]
    path.write_text(json.dumps({"accounts": entries}))
    path.chmod(0o600)
    return path
