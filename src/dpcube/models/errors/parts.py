"""The parts of the error of an answer: noise, the non-uniformity error, and the law of the noise where it is known."""

from typing import NamedTuple

from dpcube.core.arrays import Bools, Floats, Ints


class EqualNoises(NamedTuple):
    """Laws of noise that are known exactly: multiples of sums of so many noises P(z) ~ exp(-alpha|z|).

    `numbers` has one entry for each answer, 0 where its error is not known to be such a sum and nothing else.
    """

    alpha: float
    numbers: Ints


class ErrorParts(NamedTuple):
    """The parts of the errors of many answers, each of shape (answers,). What is not known is NaN, never 0.

    `noise_variances` is the variance that the noise of the measured counts leaves in each answer;
    `nonuniformity_squares` the expected square of the error made by spreading the count of a box over its cells, where
    a question takes a part of the box only; `noises` states the law of the error where it is known exactly. `modelled`
    says which answers depend on more than was counted of their attributes together: none unless given.
    """

    noise_variances: Floats
    nonuniformity_squares: Floats
    noises: EqualNoises | None = None
    modelled: Bools | None = None
