"""The page about TLS and users, followed from its top to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.page_steps import BLOCK, Folder, steps_of

PAGE = Path(__file__).parents[2] / "docs/howto/tls-and-users.md"

pytestmark = pytest.mark.real


def test_the_page_leads_to_a_cluster_that_is_encrypted_and_has_a_user_with_one_right(tmp_path: Path) -> None:
    certificate, settings, security, start, user, program, _ = steps_of(PAGE)
    folder = Folder(tmp_path)
    for name in ("NAMESRV_ADDR", "ORBITMQ_SECURITY"):
        folder.environment.pop(name, None)
    for step in (certificate, settings, security):
        folder.follow(step)
    serve_names, serve_broker, look = [text.strip() for _, text in BLOCK.findall(start)]
    with folder.serve(f"{serve_names} --host 127.0.0.1 --port 0") as (_, names):
        folder.environment["NAMESRV_ADDR"] = names["nameserver"]
        with folder.serve(f"{serve_broker} --host 127.0.0.1 --port 0 --name broker-a -n {names['nameserver']}"):
            assert "broker-a" in folder.type(look)
            with pytest.raises(AssertionError, match="no NameServer answered"):
                folder.type("orbitmq cluster")
            make, send, read = [text for _, text in BLOCK.findall(user)]
            folder.type(make)
            assert "SEND_OK" in folder.type(send)
            with pytest.raises(AssertionError, match="User:shop has no permission to access"):
                folder.type(read)
            assert folder.follow(program) == ["SEND_OK\n"]
    for secret in ("server.key", "root.password", "inner.password"):
        assert (tmp_path / secret).stat().st_mode & 0o077 == 0
