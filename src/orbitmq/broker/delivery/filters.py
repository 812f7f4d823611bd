"""Message filters: what a subscription lets pass, by tags or by an SQL92 expression. Pure.

An expression is compiled when the first pull comes with it, and kept: every pull of its group finds it again.

Source: Java ConsumerFilterManager, ExpressionMessageFilter, ExpressionForRetryMessageFilter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidExpression, Rejected
from orbitmq.filter import LENGTH_MAX, PropertyFilter, compile_sql92
from orbitmq.model.group import SQL92, SUBSCRIBE_ALL, Subscription, is_tag_type
from orbitmq.model.message import PropertyName
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.store import PropertyTest
from orbitmq.wire.messages.properties import find_property, tag_code

_BLANKS = "".join(map(chr, range(33)))
"""What Java's String.trim takes away."""


@lru_cache(maxsize=4096)
def parse_tag_codes(expression: str) -> frozenset[int] | None:
    """Return the codes of the tags in `a || b`, None for every message, none at all where blanks are the only tags.

    Raises:
        Rejected: 23, nothing but separators.
    """
    if expression in ("", SUBSCRIBE_ALL):
        return None
    parts = expression.split("||")
    if not any(parts):
        raise Rejected(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    return frozenset(tag_code(tag) for part in parts if (tag := part.strip(_BLANKS)))


CompileAside = Callable[[str, Callable[[PropertyFilter | InvalidExpression], None]], None]

Selection = frozenset[int] | PropertyTest | None
"""What a pull wants: messages with these tag codes, those that pass a test, or all."""

KEPT_LENGTH_MAX = 768 * 1024
"""Characters of all expressions that are kept compiled; each takes some 70 bytes of memory then."""
COMPILED_INLINE_LENGTH_MAX = 8 * 1024
"""Characters of an expression that the event loop compiles itself; a thread does so with a longer one."""
COMPILED_LENGTH_BURST = COMPILED_INLINE_LENGTH_MAX + 1024
COMPILED_LENGTH_PER_MS = 64
"""Characters that are compiled in one burst, and then in each millisecond: a thousand take some 4 ms."""
_EXPRESSION_LENGTH = 32
"""Characters that every expression counts besides its own: each has a fixed cost."""
_RETRY_TOPIC = PropertyName.RETRY_TOPIC.encode()


class Filters:
    """The filters of a broker, and the compiled expressions.

    Args:
        takes_sql92: False: only tags can be filtered by (Java: enablePropertyFilter).
        filters_retries: messages that come again pass their topic's filter once more (Java: filterSupportRetry).
        compile_aside: compiles a long expression in a thread, and calls back with the result; None: no caller waits
            for the loop.
    """

    def __init__(self, *, takes_sql92: bool, filters_retries: bool, compile_aside: CompileAside | None = None) -> None:
        self._compile_aside = compile_aside
        self._under_way = ""
        """The expression that a thread compiles."""
        self._takes_sql92 = takes_sql92
        self._filters_retries = filters_retries
        self._kept: dict[str, PropertyFilter | InvalidExpression] = {}
        self._kept_length = 0
        self._allowance = COMPILED_LENGTH_BURST
        self._allowed_at_ms = 0

    def of_request(self, expression: str | None, expression_type: str | None, now_ms: int) -> Selection:
        """Return what a pull wants that carries its own subscription.

        Raises:
            Rejected: 23, the expression cannot be parsed; 1, this broker takes tags alone; 215, too many new
                expressions come at the same time.
        """
        if is_tag_type(expression_type):
            return parse_tag_codes(expression or SUBSCRIBE_ALL)
        if not expression:
            raise Rejected(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                "parse the consumer's subscription failed: Expression can't be null!",
            )
        self._check_support(expression_type)
        try:
            return _test(self._compile(expression, expression_type, now_ms))
        except InvalidExpression as error:
            raise Rejected(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error.reason}"
            ) from None

    def of_subscription(self, subscription: Subscription, now_ms: int) -> Selection:
        """Return what a group wants, as its heartbeats said.

        Raises:
            Rejected: 27, the expression cannot be parsed; 23, there is no tag in it; 1, this broker takes tags alone; 215,
                too many new expressions come at the same time.
        """
        if is_tag_type(subscription.expression_type):
            return parse_tag_codes(subscription.expression)
        try:
            compiled = self._compile(subscription.expression, subscription.expression_type, now_ms)
        except InvalidExpression as error:
            raise Rejected(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"The broker's consumer filter data is not exist!Your expression may be wrong! {error.reason}",
            ) from None
        self._check_support(subscription.expression_type)
        return _test(compiled)

    def of_retries(
        self, selection: Selection, topic: str, subscriptions: Mapping[str, Subscription], now_ms: int
    ) -> Selection:
        """Return what a pull of a retry topic wants: each message passes the filter of the topic it was sent to.

        Args:
            selection: what the pull itself asks for.
            subscriptions: the group's, by topic.

        Raises:
            Rejected: 215, too many new expressions come at the same time.
        """
        if not self._filters_retries or not topic.startswith(RETRY_PREFIX):
            return selection
        tag_codes = None if isinstance(selection, PropertyTest) else selection
        by_topic = {name.encode(): found for name, one in subscriptions.items() if (found := self._find(one, now_ms))}
        if not by_topic:
            return tag_codes

        def matches(properties: bytes) -> bool:
            compiled = by_topic.get(find_property(properties, _RETRY_TOPIC) or b"")
            return compiled is None or compiled.matches(properties)

        return PropertyTest(matches, 1 + max(compiled.cost for compiled in by_topic.values()), tag_codes)

    def check(self, subscription: Subscription, now_ms: int) -> None:
        """Make sure that this broker can filter as a subscription asks.

        Raises:
            Rejected: 1, this broker takes tags alone; 23, the expression cannot be parsed; 215, too many new expressions
                come at the same time.
        """
        if is_tag_type(subscription.expression_type):
            return
        self._check_support(subscription.expression_type)
        try:
            self._compile(subscription.expression, subscription.expression_type, now_ms)
        except InvalidExpression as error:
            raise Rejected(ResponseCode.SUBSCRIPTION_PARSE_FAILED, error.reason) from None

    def _check_support(self, expression_type: str | None) -> None:
        if not self._takes_sql92:
            raise Rejected(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {expression_type:.20}",
            )

    def _find(self, subscription: Subscription, now_ms: int) -> PropertyFilter | None:
        if is_tag_type(subscription.expression_type):
            return None
        try:
            return self._compile(subscription.expression, subscription.expression_type, now_ms)
        except InvalidExpression:
            return None

    def _compile(self, expression: str, expression_type: str | None, now_ms: int) -> PropertyFilter:
        """Return a compiled expression, made now or before; a wrong one is kept as well, it comes again as often.

        Raises:
            InvalidExpression
            Rejected: 215, too many new expressions come at the same time.
        """
        if expression_type != SQL92:
            raise InvalidExpression(
                expression, f"{expression_type:.20} is not a type of expression, expected TAG or SQL92"
            )
        if len(expression) > LENGTH_MAX:
            return compile_sql92(expression)  # is refused for its length alone: nothing to keep
        found = self._kept.pop(expression, None)
        if found is None:
            self._begin(expression, now_ms)
            found = compile_or_error(expression)
            self._kept_length += len(expression)
        self._kept[expression] = found  # as the last: those that are not used come to the front, and go first
        self._drop_oldest()
        if isinstance(found, InvalidExpression):
            raise found.with_traceback(None)
        return found

    def _begin(self, expression: str, now_ms: int) -> None:
        """Return when a new expression may be compiled here and now.

        Raises:
            Rejected: 215, too many new ones come at the same time, or it is being compiled.
        """
        if self._under_way and len(expression) > COMPILED_INLINE_LENGTH_MAX:
            raise Rejected(ResponseCode.FLOW_CONTROL, "too many long new expressions at the same time: try again")
        self._spend(min(len(expression) + _EXPRESSION_LENGTH, COMPILED_LENGTH_BURST), now_ms)
        if self._compile_aside is None or len(expression) <= COMPILED_INLINE_LENGTH_MAX:
            return
        self._under_way = expression
        self._compile_aside(expression, self._keep_compiled)
        raise Rejected(
            ResponseCode.FLOW_CONTROL, f"an expression of {len(expression)} characters is compiled: try again"
        )

    def _keep_compiled(self, found: PropertyFilter | InvalidExpression) -> None:
        expression, self._under_way = self._under_way, ""
        if expression not in self._kept:
            self._kept_length += len(expression)
        self._kept[expression] = found
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while self._kept_length > KEPT_LENGTH_MAX:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._kept_length -= len(oldest)

    def _spend(self, length: int, now_ms: int) -> None:
        """Take from what may be compiled now: a client that sends ever new expressions must not occupy the loop.

        A short one passes while a long one has to wait.
        """
        grown = max(0, now_ms - self._allowed_at_ms) * COMPILED_LENGTH_PER_MS
        self._allowance = min(COMPILED_LENGTH_BURST, self._allowance + grown)
        self._allowed_at_ms = now_ms
        if length > self._allowance:
            raise Rejected(ResponseCode.FLOW_CONTROL, "too many new expressions at the same time: try again")
        self._allowance -= length


def compile_or_error(expression: str) -> PropertyFilter | InvalidExpression:
    """Compile an expression; return why it is none where it is wrong."""
    try:
        return compile_sql92(expression)
    except InvalidExpression as error:
        return error.with_traceback(None)


def _test(compiled: PropertyFilter) -> PropertyTest:
    prefilter = compiled.prefilter
    return PropertyTest(compiled.matches, compiled.cost, passing=None if prefilter is None else prefilter.passing)
