"""Claims about handlers and how they are bound."""

from __future__ import annotations

import pytest

from orbitmq.net.dispatch.handlers import Handlers, Reply
from orbitmq.wire.frame import FRAME_SIZE_MAX
from orbitmq.wire.headers import GetClusterInfo, GetKvConfigResponse, SendBatch, SendMessageV2


def test_one_function_may_answer_several_header_types():
    handlers: Handlers[None] = Handlers()
    handlers.on(SendMessageV2, SendBatch)(lambda service, call: Reply())
    assert handlers.codes == (310, 320)


def test_binding_a_code_twice_fails():
    handlers: Handlers[None] = Handlers()
    handlers.on(GetClusterInfo)(lambda service, call: Reply())
    with pytest.raises(TypeError, match="106"):
        handlers.on(GetClusterInfo)(lambda service, call: Reply())


def test_including_the_same_code_twice_fails():
    one: Handlers[None] = Handlers()
    one.on(GetClusterInfo)(lambda service, call: Reply())
    both: Handlers[None] = Handlers()
    both.include(one)
    with pytest.raises(TypeError, match="106"):
        both.include(one)


def test_a_family_gets_its_part_of_the_service_and_all_its_handlers_the_same_one():
    seen: list[object] = []
    family: Handlers[list[int]] = Handlers()
    for header_type in (GetClusterInfo, SendBatch):
        family.on(header_type)(lambda part, call: Reply(remark=str(seen.append(part))))
    own: Handlers[dict[str, int]] = Handlers()
    own.on(SendMessageV2)(lambda service, call: Reply(remark=str(seen.append(service))))
    own.include(family, lambda service: list(service.values()))

    service = {"a": 1}
    bound = own.bind(service)
    for code in (106, 320, 310):
        _, handler, part, _ = bound[code]
        handler(part, None)

    assert bound[106][0] is GetClusterInfo
    assert seen == [[1], [1], service]
    assert seen[0] is seen[1]
    assert seen[2] is service


def test_a_type_without_a_code_cannot_be_bound():
    with pytest.raises(TypeError, match="GetKvConfigResponse"):
        Handlers().on(GetKvConfigResponse)(lambda service, call: Reply())


def test_a_body_may_be_as_large_as_the_handler_says_or_else_the_service():
    family: Handlers[None] = Handlers(body_size_max=1)
    family.on(SendBatch, body_size_max=5)(lambda service, call: Reply())
    family.on(GetClusterInfo)(lambda service, call: Reply())
    service: Handlers[None] = Handlers(body_size_max=3)
    service.include(family)
    assert service.body_sizes == {320: 5, 106: 3}
    assert {code: bound[3] for code, bound in service.bind(None).items()} == {320: 5, 106: 3}


def test_binding_leaves_the_function_as_it_is():
    def answer(service, call):
        return Reply()

    assert Handlers().on(GetClusterInfo)(answer) is answer


def test_a_handler_without_a_limit_of_its_own_takes_any_body_that_a_frame_holds():
    handlers: Handlers[None] = Handlers()
    handlers.on(GetClusterInfo)(lambda service, call: Reply())
    assert handlers.body_sizes == {106: FRAME_SIZE_MAX}
