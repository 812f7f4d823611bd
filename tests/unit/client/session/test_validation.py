import asyncio
import inspect
from typing import Any

import numpy
import pytest

from cases import each_case
from orbitmq.client.session.arguments import whole
from orbitmq.client.session.validation import RULES, check_send, checked
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue


@checked(inline=("fast",), init={"count_max": whole(1, 3)}, choose={"key": whole(7)})
class Shop:
    """Takes arguments of all kinds."""

    def __init__(self, topic: Any, *, count_max: int = 1, **settings: object) -> None:
        self.taken = [topic, count_max, settings]

    def choose(self, key: int, timeout_ms: int | None = None) -> None:
        """Choose."""
        self.taken = [key, timeout_ms]

    async def wait(self, timeout_ms: int = 5, *, ordered: bool = False) -> int:
        """Wait."""
        return timeout_ms

    def fast(self, topic: str) -> None:
        """Check nothing."""

    def _inside(self, whatever: Any) -> None:
        """Check nothing either."""


class Home:
    """A class with a loop that it belongs to."""

    def __init__(self) -> None:
        self.asked = 0

    def _check_loop(self) -> None:
        self.asked += 1


@checked()
class House(Home):
    """Checks the loop before each method."""

    def __init__(self) -> None:
        super().__init__()

    def look(self) -> None:
        """Look."""

    async def wait(self) -> None:
        """Wait."""


@each_case(
    (lambda shop: Shop(""), "topic"),
    (lambda shop: Shop(topic=5), "topic"),
    (lambda shop: Shop("t", count_max=4), "count_max"),
    (lambda shop: shop.choose(6), "key"),
    (lambda shop: shop.choose(7, -1), "timeout_ms"),
    (lambda shop: shop.choose(7, timeout_ms="x"), "timeout_ms"),
    (lambda shop: asyncio.run(shop.wait(None)), "timeout_ms"),
    (lambda shop: asyncio.run(shop.wait(ordered=1)), "ordered"),
)
def test_a_bad_argument_is_refused_however_it_is_given(call, field):
    shop = Shop("t")
    shop.taken = []
    with pytest.raises(InvalidArgument) as caught:
        call(shop)
    assert caught.value.field == field
    assert shop.taken == [], "nothing was done"


def test_good_arguments_arrive_as_they_are():
    shop = Shop("t", count_max=3, other=None)
    assert shop.taken == ["t", 3, {"other": None}]
    shop.choose(7)
    assert shop.taken == [7, None]
    shop.choose(8, timeout_ms=None)
    shop.fast("")
    shop._inside("x")
    assert asyncio.run(shop.wait(6, ordered=True)) == 6


def test_numbers_of_other_kinds_arrive_as_ints():
    int64: Any = numpy.int64
    shop = Shop("t", count_max=int64(3), other=int64(9))
    assert (shop.taken[1], type(shop.taken[1])) == (3, int)
    shop.choose(int64(8), timeout_ms=int64(5))
    assert list(map(type, shop.taken)) == [int, int]
    assert type(asyncio.run(shop.wait(int64(6)))) is int
    found = check_send(ORDER, queue=QUEUE._replace(queue_id=int64(0)), key=None)
    assert found == QUEUE
    assert type(found.queue_id) is int


def test_what_python_refuses_is_left_to_python():
    shop: Any = Shop
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        shop()
    with pytest.raises(TypeError, match="takes from 2 to 3 positional arguments"):
        shop("t").choose(7, 0, "x")


def test_a_class_keeps_its_looks():
    assert str(inspect.signature(Shop.choose)) == "(self, key: int, timeout_ms: int | None = None) -> None"
    assert Shop.choose.__doc__ == "Choose."
    assert inspect.iscoroutinefunction(Shop.wait)
    assert not inspect.iscoroutinefunction(Shop.choose)


def test_an_argument_without_a_rule_is_refused_when_the_class_is_made():
    with pytest.raises(TypeError, match=r"^Odd\.take: no rule says what colour may be; add one to RULES$"):

        @checked()
        class Odd:
            def take(self, topic: str, colour: str) -> None: ...


def test_even_a_method_that_checks_for_itself_needs_rules():
    with pytest.raises(TypeError, match=r"no rule says what colour may be"):

        @checked(inline=("take",))
        class Odd:
            def take(self, colour: str) -> None: ...


def test_methods_ask_for_the_loop_and_the_constructor_does_not():
    house = House()
    assert house.asked == 0
    house.look()
    asyncio.run(house.wait())
    assert house.asked == 2


QUEUE = MessageQueue("orders", "broker-a", 0)
ORDER = Message("orders", b"")


@each_case(
    ({"message": "x"}, "message"),
    ({"key": 5}, "key"),
    ({"queue": "orders"}, "queue"),
    ({"queue": tuple(QUEUE)}, "queue"),
    ({"queue": QUEUE._replace(topic="others")}, "queue"),
)
def test_a_sends_arguments_are_checked_without_a_layer(values, field):
    good: dict[str, Any] = {"message": ORDER, "queue": None, "key": None}
    assert check_send(**good) is None
    assert check_send(**{**good, "queue": QUEUE, "key": ""}) is QUEUE
    with pytest.raises(InvalidArgument) as caught:
        check_send(**{**good, **values})
    assert caught.value.field == field


def test_a_queue_of_another_topic_is_named_with_the_right_one():
    with pytest.raises(InvalidArgument, match=r"expected a MessageQueue of the message's topic orders$"):
        check_send(ORDER, queue=QUEUE._replace(topic="others"), key=None)


def test_rules_are_in_order():
    assert list(RULES) == sorted(RULES)
