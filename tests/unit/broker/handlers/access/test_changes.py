"""Claims about changes that the disk refuses."""

from __future__ import annotations

import shutil
from typing import Any

from orbitmq.wire.headers import CreateUser, GetUser

from ...conftest import Rig


def test_a_change_that_was_not_kept_is_refused_and_has_not_happened(serve: Any):
    async def scenario(rig: Rig) -> None:
        folder = rig.broker.config.store_path_root_dir / "config"
        shutil.rmtree(folder)
        folder.write_text("no directory")
        refused = await rig.ask(CreateUser(username="anna"), b'{"password":"pw"}')
        assert (refused.code, refused.remark) == (1, "An system error occurred, please try again later.")
        assert (await rig.ask(GetUser(username="anna"))).body == b""
        folder.unlink()
        assert await rig.code(CreateUser(username="anna"), b'{"password":"pw"}') == 0

    serve(scenario)
