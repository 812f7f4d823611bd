"""Rules of users (3006 to 3010), with Java's answers.

Source: Java AdminBrokerProcessor: createAcl, updateAcl, deleteAcl, getAcl, listAcl.
"""

from __future__ import annotations

from orbitmq.broker.access.control import AccessControl
from orbitmq.broker.access.directory import add_rules, delete_rules, find_rules, list_rules
from orbitmq.broker.handlers.users import keep
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.access import PolicyType, by_name, parse_resource, parse_subject
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.access import decode_acl_draft, encode_acl, encode_acls
from orbitmq.wire.headers import CreateAcl, DeleteAcl, GetAcl, ListAcls, UpdateAcl

handlers: Handlers[AccessControl] = Handlers()


@handlers.on(CreateAcl)
def create(access: AccessControl, call: Call[CreateAcl]) -> Reply:
    """Add rules to a user's; those about the same resources are replaced."""
    return _add(access, call)


@handlers.on(UpdateAcl)
def update(access: AccessControl, call: Call[UpdateAcl]) -> Reply:
    """Do the same."""
    return _add(access, call)


def _add(access: AccessControl, call: Call[CreateAcl] | Call[UpdateAcl]) -> Reply:
    if not call.command.body:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "The body of acl is null")
    draft = decode_acl_draft(call.command.body)
    keep(access, add_rules(access.directory, call.header.subject, draft))
    return Reply()


@handlers.on(DeleteAcl)
def delete(access: AccessControl, call: Call[DeleteAcl]) -> Reply:
    """Delete a user's rules, or the one about a resource.

    A resource that is none is refused; Java takes it for no resource, and deletes all rules.
    """
    header = call.header
    if parse_subject(header.subject) is None:
        raise Rejected(ResponseCode.NO_PERMISSION, "The subject is null.")
    resource = parse_resource(header.resource)
    if resource is None and (header.resource or "").strip():
        raise Rejected(ResponseCode.NO_PERMISSION, f"The resource {header.resource!r:.80} is illegal.")
    kind = by_name(PolicyType, header.policy_type)
    keep(access, delete_rules(access.directory, header.subject, kind, resource))
    return Reply()


@handlers.on(GetAcl)
def get(access: AccessControl, call: Call[GetAcl]) -> Reply:
    """Answer with a user's rules; with nothing when it has none."""
    acl = find_rules(access.directory, call.header.subject)
    return Reply() if acl is None else Reply(body=encode_acl(acl))


@handlers.on(ListAcls)
def list_all(access: AccessControl, call: Call[ListAcls]) -> Reply:
    """Answer with the rules of all users, or of some; with nothing when there are none."""
    acls = list_rules(access.directory, call.header.subject_filter, call.header.resource_filter)
    return Reply(body=encode_acls(acls)) if acls else Reply()
