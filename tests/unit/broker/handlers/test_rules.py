"""Claims about requests for rules (3006 to 3010), through a connection, and about changes that the disk refuses."""

from __future__ import annotations

import json
import shutil
from typing import Any

from cases import each_case
from orbitmq.wire.bodies.access import decode_acl, decode_acls
from orbitmq.wire.command import Command
from orbitmq.wire.headers import CreateAcl, CreateUser, DeleteAcl, GetAcl, GetUser, ListAcls, UpdateAcl
from unit.broker.conftest import Harness


def body(*entries: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"policies": [{"policyType": "Custom", "entries": list(entries)}], **fields}).encode()


def entry(resource: str, *actions: str, decision: str = "Allow", **more: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": list(actions), "decision": decision, **more}


async def answer(harness: Harness, header: object, content: bytes = b"") -> Command:
    return await harness.ask(header, content)


async def make_anna(harness: Harness) -> None:
    assert (await answer(harness, CreateUser(username="anna"), b'{"password":"pw"}')).code == 0


async def test_rules_come_change_and_go(harness: Harness):
    await make_anna(harness)
    subject = "User:anna"
    assert (await answer(harness, GetAcl(subject=subject))).body == b""
    first = body(entry("topic:orders*", "PUB", "sub", "nonsense", sourceIps=["10.0.0.0/8"]), entry("*", "All"))
    assert (await answer(harness, CreateAcl(subject=subject), first)).code == 0
    found = json.loads((await answer(harness, GetAcl(subject=subject))).body)
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
    assert (await answer(harness, UpdateAcl(), second)).code == 0
    (listed,) = decode_acls((await answer(harness, ListAcls(subject_filter="ann", resource_filter="orders"))).body)
    assert [(str(rule.resource), rule.decision) for rule in listed.policies[0].rules] == [("Topic:orders*", "Deny")]
    assert (await answer(harness, DeleteAcl(subject=subject, resource="Topic:orders*"))).code == 0
    left = decode_acl((await answer(harness, GetAcl(subject=subject))).body)
    assert [str(rule.resource) for rule in left.policies[0].rules] == ["*"]
    assert (await answer(harness, DeleteAcl(subject=subject))).code == 0
    assert decode_acls((await answer(harness, ListAcls())).body) == ()


@each_case(
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
)
async def test_what_means_nothing_is_refused(header: object, content: bytes, code: int, remark: str, harness: Harness):
    if not harness.broker.service.access.directory.users:
        await make_anna(harness)
    found = await answer(harness, header, content)
    assert (found.code, str(found.remark)[: len(remark)]) == (code, remark)


async def test_a_change_that_was_not_kept_is_refused_and_has_not_happened(harness: Harness):
    folder = harness.broker.config.store_path_root_dir / "config"
    shutil.rmtree(folder)
    folder.write_text("no directory")
    refused = await harness.ask(CreateUser(username="anna"), b'{"password":"pw"}')
    assert (refused.code, refused.remark) == (1, "An system error occurred, please try again later.")
    assert (await harness.ask(GetUser(username="anna"))).body == b""
    folder.unlink()
    assert await harness.code(CreateUser(username="anna"), b'{"password":"pw"}') == 0
