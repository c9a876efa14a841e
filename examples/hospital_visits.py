"""Hospital visits: patients who come several times, and a release for each month.

    python examples/hospital_visits.py

The patient is protected, not the visit: at most two visits of each patient count in a month. Two months are released
and opened together. A patient may be in both, so their epsilons add up in the ledger.
"""

import tempfile
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

import dpcube
from dpcube import Category, Domain, Integer
from dpcube.core.ledger.ledger import Ledger
from dpcube.curator import publish

# Everything here is public: the wards are on the hospital's web site, and ages beyond 99 are counted as 99.
DOMAIN = Domain(
    Integer("age", 0, 99, width=10, outside="clip"),
    Category("ward", ["surgery", "medicine", "children", "maternity"]),
)
MONTHS = {
    "january": (date(2026, 1, 1), date(2026, 1, 31)),
    "february": (date(2026, 2, 1), date(2026, 2, 28)),
}


def simulated_visits(patients: int, seed: int = 1) -> pd.DataFrame:
    """Return a row for each visit: older patients come more often, and children go to their own ward."""
    random = np.random.default_rng(seed)
    age = random.integers(0, 95, patients)
    visits = random.poisson(0.5 + age / 40)
    patient = np.repeat(np.arange(patients), visits)
    ward = np.where(age[patient] < 16, "children", random.choice(["surgery", "medicine", "maternity"], len(patient)))
    days = random.integers(0, 365, len(patient))
    return pd.DataFrame(
        {
            "patient_id": [f"P{number:06}" for number in patient],
            "age": age[patient],
            "ward": ward,
            "admitted": [date(2026, 1, 1) + timedelta(days=int(day)) for day in days],
        }
    )


def main(patients: int = 20_000, folder: Path | None = None) -> dpcube.Release:
    """Release two months, and ask them together."""
    folder = folder or Path(tempfile.mkdtemp(prefix="visits-"))
    visits = simulated_visits(patients)
    print(f"{len(visits):,} visits of {visits.patient_id.nunique():,} patients")

    files = []
    for month, (first, last) in MONTHS.items():
        files.append(folder / f"{month}.dpcube")
        publish(
            visits,
            DOMAIN,
            epsilon=0.5,
            unit="patient_id",
            max_rows=2,
            period=("admitted", first, last),
            ledger=folder / "visits.ledger",
            total=2,  # what these patients may lose in their lives
            purpose=f"visits of {month}",
            save_to=files[-1],
        )
    spent = Ledger(folder / "visits.ledger").statement()
    print(f"epsilon spent on each patient: {spent.spent} of {spent.total}")

    # Analysts have the two files, and nothing else.
    both = dpcube.open(files)
    print(both.group_by("period", "ward").to_pandas().round(1).to_string(index=False))
    print("Aged 60 and over in surgery:", both.count("age >= 60 and ward = 'surgery'"))
    print(f"Files are in {folder}")
    return both


if __name__ == "__main__":
    main()
