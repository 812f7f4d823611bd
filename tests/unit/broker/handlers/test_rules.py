"""Claims about requests for rules (3006 to 3010), through a connection, and about changes that the disk refuses."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from orbitmq.wire.bodies.access import decode_acl, decode_acls
from orbitmq.wire.command import Command
from orbitmq.wire.headers import CreateAcl, CreateUser, DeleteAcl, GetAcl, GetUser, ListAcls, UpdateAcl
from unit.broker.conftest import Rig


def body(*entries: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"policies": [{"policyType": "Custom", "entries": list(entries)}], **fields}).encode()


def entry(resource: str, *actions: str, decision: str = "Allow", **more: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": list(actions), "decision": decision, **more}


async def answer(rig: Rig, header: object, content: bytes = b"") -> Command:
    return await rig.ask(header, content)


async def make_anna(rig: Rig) -> None:
    assert (await answer(rig, CreateUser(username="anna"), b'{"password":"pw"}')).code == 0


async def test_rules_come_change_and_go(rig: Rig):
    await make_anna(rig)
    subject = "User:anna"
    assert (await answer(rig, GetAcl(subject=subject))).body == b""
    first = body(entry("topic:orders*", "PUB", "sub", "nonsense", sourceIps=["10.0.0.0/8"]), entry("*", "All"))
    assert (await answer(rig, CreateAcl(subject=subject), first)).code == 0
    found = json.loads((await answer(rig, GetAcl(subject=subject))).body)
    assert found == {
        "subject": subject,
        "policies": [
            {
                "policyType": "Custom",
                "entries": [entry("Topic:orders*", "Pub", "Sub", sourceIps=["10.0.0.0/8"]), entry("*", "All")],
            }
        ],
    }
    second = body(entry("Topic:orders*", "Sub", decision="deny"), subject=subject)
    assert (await answer(rig, UpdateAcl(), second)).code == 0
    (listed,) = decode_acls((await answer(rig, ListAcls(subject_filter="ann", resource_filter="orders"))).body)
    assert [(str(rule.resource), rule.decision) for rule in listed.policies[0].rules] == [("Topic:orders*", "Deny")]
    assert (await answer(rig, DeleteAcl(subject=subject, resource="Topic:orders*"))).code == 0
    left = decode_acl((await answer(rig, GetAcl(subject=subject))).body)
    assert [str(rule.resource) for rule in left.policies[0].rules] == ["*"]
    assert (await answer(rig, DeleteAcl(subject=subject))).code == 0
    assert decode_acls((await answer(rig, ListAcls())).body) == ()


@pytest.mark.parametrize(
    ("header", "content", "code", "remark"),
    [
        (CreateAcl(subject="User:anna"), b"", 1, "The body of acl is null"),
        (CreateAcl(subject="User:anna"), b'{"policies":[]}', 16, "The policies is empty."),
        (CreateAcl(subject="User:ben"), body(entry("*", "All")), 16, "The subject of User:ben is not exist."),
        (UpdateAcl(subject="User:anna"), body(entry("x", "All")), 16, "The resource is null."),
        (DeleteAcl(subject="User:anna"), b"", 16, "The acl is not exist."),
        (DeleteAcl(resource="Topc:a"), b"", 16, "The subject is null."),
        (DeleteAcl(subject="User:anna", resource="Topc:a"), b"", 16, "The resource 'Topc:a' is illegal."),
        (GetAcl(subject="User:ben"), b"", 16, "The subject is not exist."),
        (CreateAcl(subject="User:anna"), b'{"policies":[{"entries":[{"resource":5}]}]}', 1, "acl: "),
        (CreateAcl(subject="User:anna"), b'{"policies":5}', 1, "acl: "),
    ],
)
async def test_what_means_nothing_is_refused(rig: Rig, header: object, content: bytes, code: int, remark: str):
    await make_anna(rig)
    found = await answer(rig, header, content)
    assert (found.code, str(found.remark)[: len(remark)]) == (code, remark)


async def test_a_change_that_was_not_kept_is_refused_and_has_not_happened(rig: Rig):
    folder = rig.broker.config.store_path_root_dir / "config"
    shutil.rmtree(folder)
    folder.write_text("no directory")
    refused = await rig.ask(CreateUser(username="anna"), b'{"password":"pw"}')
    assert (refused.code, refused.remark) == (1, "An system error occurred, please try again later.")
    assert (await rig.ask(GetUser(username="anna"))).body == b""
    folder.unlink()
    assert await rig.code(CreateUser(username="anna"), b'{"password":"pw"}') == 0
