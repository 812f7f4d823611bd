from orbitmq.client.consume.dispatch.lanes import Lanes


def test_items_of_a_key_have_their_turns_one_after_the_other():
    lanes: Lanes[int] = Lanes()
    assert lanes.put("a", 1)
    assert not lanes.put("a", 2)
    assert lanes.first("a") == 1
    assert lanes.advance("a")
    assert lanes.first("a") == 2
    assert not lanes.put("a", 3)
    assert lanes.advance("a")
    assert not lanes.advance("a")
    assert lanes.put("a", 4)


def test_keys_do_not_wait_for_one_another_and_leave_nothing_behind():
    lanes: Lanes[int] = Lanes()
    assert lanes.put("a", 1)
    assert lanes.put(("b", 2), 2)
    assert len(lanes) == 2
    assert not lanes.advance("a")
    assert not lanes.advance(("b", 2))
    assert len(lanes) == 0
