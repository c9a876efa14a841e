"""How attributes and domains are written in Python."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from datetime import date
from typing import Any

import numpy as np
import pytest

import dpcube
from dpcube.core.domain import Attribute, Category, Date, Domain, Float, Integer
from dpcube.core.errors import DomainError

untyped: Any = dpcube
KINDS = (Integer, Float, Category, Date)
AGE, SEX = Integer("age", 0, 99, width=5), Category("sex", ["f", "m"])


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (Integer("age", 0, 99), Integer(name="age", min=0, max=99)),
        (AGE, Integer(name="age", min=0, max=99, width=5)),
        (Float("dose", 0, 10, width=0.5), Float(name="dose", min=0, max=10, width=0.5)),
        (SEX, Category(name="sex", values=("f", "m"))),
        (Category("sex", ("f", "m")), Category(name="sex", values=["f", "m"])),
        (Category("sex", np.array(["f", "m"])), Category(name="sex", values=("f", "m"))),
        (
            Date("admitted", "2026-01-01", "2026-12-31", every="month"),
            Date(name="admitted", start=date(2026, 1, 1), end=date(2026, 12, 31), every="month"),
        ),
        (Date("admitted", date(2026, 1, 1), "2026-12-31"), Date("admitted", "2026-01-01", date(2026, 12, 31))),
    ],
)
def test_attributes_are_written_in_the_order_people_say_them(short: Attribute, long: Attribute) -> None:
    assert short == long
    assert hash(short) == hash(long)
    assert repr(short) == repr(long)


def test_a_domain_takes_attributes_one_by_one_or_as_a_list() -> None:
    expected = Domain(attributes=(AGE, SEX))
    for made in (Domain(AGE, SEX), Domain((AGE, SEX)), Domain([AGE, SEX]), Domain(iter((AGE, SEX)))):
        assert made == expected
        assert hash(made) == hash(expected)
    assert Domain(AGE) == Domain((AGE,))
    stamped = Domain(AGE, SEX, drafted_from_data=True, signed_public_by="me")
    assert replace(stamped, attributes=(SEX,)) == Domain(SEX, drafted_from_data=True, signed_public_by="me")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: untyped.Domain(5),
            "a domain consists of attributes such as Integer(name='age', min=0, max=99), got 5",
        ),
        (lambda: untyped.Domain("visits.toml"), "a domain consists of attributes such as"),
        (lambda: untyped.Domain(AGE, True), "a domain consists of attributes such as"),
        (lambda: untyped.Domain((AGE,), True), "a domain consists of attributes such as"),
        (lambda: untyped.Domain((AGE,), (SEX,)), "a domain consists of attributes such as"),
        (lambda: untyped.Domain(AGE, attributes=(SEX,)), "a domain consists of attributes such as"),
        (lambda: untyped.Domain(attributes=5), "a domain consists of attributes such as"),
        (lambda: untyped.Domain(), "a domain needs at least one attribute"),
        (lambda: untyped.Integer(0, 99), "the name of an attribute must be text that is not blank, got 0"),
        (
            lambda: untyped.Integer("age", "0", 99),
            "attribute 'age': min must be a number between -2^53 and 2^53, got '0'",
        ),
        (
            lambda: untyped.Float("dose", edges=5),
            "attribute 'dose': edges must be a list of numbers such as [0, 18, 65], got 5",
        ),
        (
            lambda: untyped.Category("sex", 5),
            "attribute 'sex': values must be an ordered list of texts, got 5",
        ),
        (
            lambda: Category("sex", {"f"}),
            "attribute 'sex': values must be an ordered list of texts, got {'f",
        ),
        (
            lambda: untyped.Category("sex", {"f": 1}),
            "attribute 'sex': values must be an ordered list of texts",
        ),
        (lambda: untyped.Category("sex", b"fm"), "attribute 'sex': values must be an ordered list of texts"),
        (
            lambda: untyped.Date("day", 1, 2),
            "attribute 'day': start must be a date such as 2026-01-31 without quotes, got 1",
        ),
        (
            lambda: untyped.Date("day", "2026-01-01", "1.2.26"),
            "attribute 'day': end must be a date written YYYY-MM-DD such as",
        ),
        (
            lambda: untyped.Date("day", "2026-W01-1", "2026-12-31"),
            "attribute 'day': start must be a date written YYYY-MM-DD",
        ),
        (
            lambda: untyped.Date("day", "20260101", "2026-12-31"),
            "attribute 'day': start must be a date written YYYY-MM-DD",
        ),
    ],
)
def test_a_wrong_type_says_what_is_allowed(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DomainError) as caught:
        make()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("kind", KINDS)
def test_constructors_and_fields_have_the_same_defaults(kind: type[Attribute]) -> None:
    taken = {
        name: MISSING if parameter.default is inspect.Parameter.empty else parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
    }
    assert taken == {field.name: field.default for field in fields(kind)}
