from __future__ import annotations

from tests.docs.house import BEGIN, END, PAGE, contracts, house, summary


def test_the_map_is_that_of_the_code() -> None:
    shown = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == house().strip(), "write it anew: python -m tests.docs.house"


def test_every_room_says_what_it_holds() -> None:
    rooms = [f"{package}.{room}" for package, layers in contracts().items() for layer in layers for room in layer]
    assert len(rooms) > 40
    assert [room for room in rooms if not summary(room)] == []
