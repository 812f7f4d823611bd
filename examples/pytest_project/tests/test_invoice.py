"""An invoice out of an order: no broker is needed."""

import pytest

from billing.consumer import invoice_of  # type: ignore[import-not-found]


def test_the_total_is_quantity_times_price() -> None:
    assert invoice_of(b'{"id": "A-1", "quantity": 3, "price": 250}') == {"order": "A-1", "total": 750}


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b'{"id": "A-1"}'])
def test_what_is_no_order_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        invoice_of(body)
