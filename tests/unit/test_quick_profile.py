"""`make check` draws few examples of every property, however many the property asks for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import draw_few

FEW = settings.get_profile("quick").max_examples


def test_a_property_that_asks_for_many_examples_draws_few() -> None:
    drawn: list[int] = []

    @settings(max_examples=60, deadline=None, database=None)
    @given(st.integers())
    def prop(number: int) -> None:
        drawn.append(number)

    prop()
    assert len(drawn) >= 60
    drawn.clear()
    draw_few(prop)
    prop()
    assert len(drawn) == FEW


def test_what_draws_nothing_or_less_is_left_alone() -> None:
    drawn: list[int] = []

    @settings(max_examples=3, deadline=None, database=None)
    @given(st.integers())
    def prop(number: int) -> None:
        drawn.append(number)

    draw_few(prop)
    prop()
    assert len(drawn) == 3
    draw_few(None)
    draw_few(test_a_property_that_asks_for_many_examples_draws_few)
