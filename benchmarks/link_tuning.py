"""Rules chosen on some tables and scored on others: an F1 whose rules have not seen the links that they are scored on.

    python benchmarks/link_tuning.py LEFT.csv RIGHT.csv TUNED.csv...

Fixed beforehand: five texts that weigh 2 each, alike by one share for all, and two exact columns that weigh 1 each. The
share and the threshold are those of the best F1 on the pairs of rows of each TUNED table together (records of one
person have the same first number in their ids), and are then scored, once, on all pairs of LEFT and RIGHT. All in the
clear.
"""

import csv
import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.link_tables import number_in
from dpcube.core.arrays import Ints
from dpcube.link.features import feature_key, raw_features
from dpcube.link.rules import ExactRule, MatchingRules, TextRule

COMPARED_TEXTS = ("given_name", "surname", "suburb", "address_1", "date_of_birth")
COMPARED_EXACTLY = ("postcode", "state")
SIMILAR_TRIED = ("0.6", "0.65", "0.7", "0.75", "0.8", "0.85", "0.9")
MOST_WEIGHT = 2 * len(COMPARED_TEXTS) + len(COMPARED_EXACTLY)
ROWS_SCORED_AT_ONCE = 500


class PeopleTable:
    """The features of a table's records, and the number of the person that each is of."""

    def __init__(self, path: str) -> None:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, skipinitialspace=True))
        key, nothing = feature_key(MatchingRules((ExactRule("x", "x"),), 1)), np.zeros(0)

        def made(rule: TextRule | ExactRule) -> tuple[Ints, np.ndarray]:
            return raw_features(rule, [row[rule.column].strip() or None for row in rows], nothing, key)

        self.person = np.array([int(number_in(row["rec_id"])) for row in rows])
        self.bits = [made(TextRule(name, name))[0].astype(np.float32) for name in COMPARED_TEXTS]
        self.exact = [made(ExactRule(name, name)) for name in COMPARED_EXACTLY]

    def __len__(self) -> int:
        return len(self.person)


def score_tallies(left: PeopleTable, right: PeopleTable, *, same: bool = False) -> Ints:
    """Return, for each share, score and whether two are one person, how many pairs; of one table, each pair once."""
    found = np.zeros((len(SIMILAR_TRIED), MOST_WEIGHT + 1, 2), np.int64)
    for start in range(0, len(left), ROWS_SCORED_AT_ONCE):
        part = slice(start, min(start + ROWS_SCORED_AT_ONCE, len(left)))
        equal = [
            (x[part] == y.T) & there[part, None] & is_there[None]
            for (x, there), (y, is_there) in zip(left.exact, right.exact, strict=True)
        ]
        scores = np.repeat(sum(one.astype(np.int8) for one in equal)[None], len(SIMILAR_TRIED), axis=0)
        for x, y in zip(left.bits, right.bits, strict=True):
            common, ours, theirs = x[part] @ y.T, x[part].sum(1)[:, None], y.sum(1)[None]
            some = np.greater(ours, 0) & np.greater(theirs, 0)
            for place, share in enumerate(map(Fraction, SIMILAR_TRIED)):
                enough = 2 * share.denominator * common >= share.numerator * (ours + theirs)
                scores[place] += 2 * (some & enough).astype(np.int8)
        one_person = np.equal(left.person[part, None], right.person[None])
        later = np.greater(np.arange(len(right))[None], np.arange(len(left))[part, None])
        counted = later if same else np.ones(one_person.shape, bool)
        for place in range(len(SIMILAR_TRIED)):
            both = scores[place].astype(np.int64) * 2 + one_person
            found[place] += np.bincount(both[counted], minlength=2 * MOST_WEIGHT + 2).reshape(-1, 2)
    return found


def scored_quality(found: Ints) -> dict[tuple[str, int], dict[str, float]]:
    """Return recall, precision and F1 of each share and threshold."""
    above = found[:, ::-1].cumsum(axis=1)[:, ::-1]
    made = {}
    for place, share in enumerate(SIMILAR_TRIED):
        true = int(found[place, :, 1].sum())
        for threshold in range(1, MOST_WEIGHT + 1):
            wrong, right = above[place, threshold].tolist()
            recall, precision = right / true, right / max(1, right + wrong)
            made[share, threshold] = {
                "recall": recall,
                "precision": precision,
                "f1": 2 * right / (true + right + wrong),
            }
    return made


def main(arguments: Sequence[str]) -> None:
    left, right, *tuned = arguments
    tables = [PeopleTable(path) for path in tuned]
    learnt = scored_quality(np.sum([score_tallies(one, one, same=True) for one in tables], axis=0))
    chosen = max(learnt, key=lambda one: learnt[one]["f1"])
    print(json.dumps({"similar": chosen[0], "threshold": chosen[1], "where_chosen": learnt[chosen]}), flush=True)
    scored = scored_quality(score_tallies(PeopleTable(left), PeopleTable(right)))
    print(json.dumps({"on_all_pairs_of_the_others": scored[chosen]}))


if __name__ == "__main__":
    main(sys.argv[1:])
