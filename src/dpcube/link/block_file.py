"""The blocks file: a plan of boxes enters or leaves as JSON, public and the same for both parties."""

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpcube.core.arrays import Floats
from dpcube.core.boxes import Partitioning
from dpcube.core.domain import Domain
from dpcube.core.domain.file import read_text, write_text
from dpcube.core.epsilon import parse_delta, parse_epsilon
from dpcube.core.errors import DpcubeError, InputError, MemoryLimitError
from dpcube.core.memory import check_memory
from dpcube.core.padding import padding_shift
from dpcube.link.blocking import MOST_PLANNED_BLOCKS, BlockPlan, plan_boxes
from dpcube.link.rules import MatchingRules

ROUNDS_AS_PAIRS = 2048
"""What a pair of blocks is taken to cost the secure step besides its pairs, since a product takes time for each row of
one side however few the other has: measured (docs/linkage.md) as about 900 pairs of processor time and 4,500 of bytes,
and this is between the two."""
BLOCKS_FORMAT = "dpcube blocks 1"
MOST_OTHER_ROWS = 2**40
_KEYS = {
    "format",
    "domain",
    "lower",
    "upper",
    "reach",
    "pairs",
    "pairs_without",
    "epsilon",
    "delta",
    "release",
    "rules",
}


class NoisyCube(Protocol):
    """What blocks are planned from: a `Release`, which this package is not to import."""

    domain: Domain

    @property
    def digest(self) -> str:
        """SHA-256 that identifies the release."""

    def cells(self) -> Floats:
        """Return the estimated count of every cell."""


@dataclass(frozen=True, eq=False)
class BlockFile:
    """A plan of blocks with what it was made for: rules, an epsilon and delta of the padding, and the release."""

    plan: BlockPlan
    epsilon: Fraction
    delta: Fraction
    release: str
    rules: str

    @classmethod
    def planned(
        cls,
        release: NoisyCube,
        rules: MatchingRules,
        *,
        epsilon: str | Fraction,
        delta: str | Fraction = "1e-6",
        max_rows: int = 1,
        other_rows: float | None = None,
        rounds: float | None = None,
    ) -> "BlockFile":
        """Choose blocks for a release and rules, by what padding at (epsilon, delta) would cost; nothing is spent.

        `rounds` are what a pair of blocks costs besides its pairs; none where equal records are found by intersection.
        """
        amount, slack = parse_epsilon(epsilon), parse_delta(delta)
        if other_rows is not None and not 0 <= other_rows <= MOST_OTHER_ROWS:  # nor is it no number
            msg = f"the rows of the other party must be a number from 0 to {MOST_OTHER_ROWS:,}"
            raise InputError(msg)
        domain = release.domain
        check_memory(24 * domain.size, what=f"a cube of {domain.size:,} cells", remedy="block on fewer attributes")
        shift = padding_shift(amount, slack, sensitivity=max_rows)
        reach = [rules.reach_along(name) for name in domain.names]
        cells = release.cells()
        if rounds is None:
            rounds = 0 if rules.program.is_equality else ROUNDS_AS_PAIRS
        plan = plan_boxes(domain, cells, reach=reach, shift=shift, other_rows=other_rows, rounds=rounds)
        return cls(plan, amount, slack, release.digest, rules.digest)

    def dumps(self) -> str:
        """Return the text of the file."""
        plan = self.plan
        told = {
            "format": BLOCKS_FORMAT,
            "domain": plan.domain.dumps(),
            "lower": plan.boxes.lower.tolist(),
            "upper": plan.boxes.upper.tolist(),
            "reach": list(plan.reach),
            "pairs": plan.pairs,
            "pairs_without": plan.pairs_without,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "release": self.release,
            "rules": self.rules,
        }
        return json.dumps(told, indent=1, sort_keys=True) + "\n"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what both parties must agree on."""
        return hashlib.sha256(self.dumps().encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the file."""
        write_text(path, self.dumps())

    @classmethod
    def load(cls, path: Path) -> "BlockFile":
        """Read a file, from whomever it comes: InputError in one line unless it is a whole plan of blocks."""
        text = read_text(path)
        try:
            return cls._read(json.loads(text))
        except MemoryLimitError:
            raise
        except (DpcubeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            why = str(error) if isinstance(error, DpcubeError) else "it was changed, or made by something else"
            msg = f"{path} is no blocks file of `dpcube block`: {why}"
            raise InputError(msg) from None

    @classmethod
    def _read(cls, told: Any) -> "BlockFile":
        if not isinstance(told, dict) or set(told) != _KEYS or told["format"] != BLOCKS_FORMAT:
            msg = f"it is not of the format '{BLOCKS_FORMAT}'"
            raise InputError(msg)
        domain = Domain.loads(told["domain"])
        check_memory(24 * domain.size, what=f"a cube of {domain.size:,} cells", remedy="ask for fewer attributes")
        lower, upper = (np.array(told[key], np.int64) for key in ("lower", "upper"))
        reach = tuple(float(apart) for apart in told["reach"])
        if (
            not 1 <= len(lower) <= MOST_PLANNED_BLOCKS
            or len(reach) != len(domain.names)
            or not all(0 <= r < 2**60 for r in reach)
        ):
            msg = f"it has no list of 1 to {MOST_PLANNED_BLOCKS:,} boxes, or no reach for each attribute"
            raise InputError(msg)
        plan = BlockPlan(
            domain, Partitioning(domain.shape, lower, upper), reach, float(told["pairs"]), float(told["pairs_without"])
        )
        digests = [str(told[key]) for key in ("release", "rules")]
        return cls(plan, parse_epsilon(str(told["epsilon"])), parse_delta(str(told["delta"])), *digests)
