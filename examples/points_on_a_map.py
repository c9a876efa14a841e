"""Points on a map: longitude and latitude to a thousandth of a degree.

    python examples/points_on_a_map.py

A cube of 40,000 x 15,000 cells has too many counts to keep. Such a domain is released as boxes instead: large ones
where nobody is, small ones in towns. The answers are those of any other release.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import dpcube
from dpcube import Category, Domain, Float
from dpcube.curator import publish

TOWNS = {"harbour": (6.2, 51.4), "capital": (14.5, 48.3), "spa": (9.8, 53.9)}
DOMAIN = Domain(
    Float("lon", -10.0, 30.0, width=0.001, within="even"),  # even: points may lie anywhere in a cell
    Float("lat", 42.0, 57.0, width=0.001, within="even"),
    Category("kind", ["shop", "school"]),
)


def simulated_points(rows: int, seed: int = 1) -> pd.DataFrame:
    """Return places in three towns, and one in ten anywhere."""
    random = np.random.default_rng(seed)
    town = random.choice(len(TOWNS), rows, p=[0.2, 0.7, 0.1])
    middle = np.array(list(TOWNS.values()))[town]
    places = middle + random.normal(0, 0.15, (rows, 2))
    anywhere = random.random(rows) < 0.1
    places[anywhere] = random.uniform((-10, 42), (30, 57), (anywhere.sum(), 2))
    return pd.DataFrame(
        {"lon": places[:, 0], "lat": places[:, 1], "kind": random.choice(["shop", "school"], rows, p=[0.8, 0.2])}
    )


def around(place: tuple[float, float], degrees: float) -> str:
    """Return the condition of a square around a place."""
    lon, lat = place
    return (
        f"lon between {lon - degrees:.3f} and {lon + degrees:.3f}"
        f" and lat between {lat - degrees:.3f} and {lat + degrees:.3f}"
    )


def main(rows: int = 200_000, folder: Path | None = None) -> dpcube.Release:
    """Release the points, count around towns, and draw synthetic points."""
    folder = folder or Path(tempfile.mkdtemp(prefix="points-"))
    points = simulated_points(rows)
    publish(points, DOMAIN, epsilon=1, ledger=folder / "points.ledger", save_to=folder / "points.dpcube")

    release = dpcube.open(folder / "points.dpcube")
    print(f"{DOMAIN.size:,} cells, and a file of {(folder / 'points.dpcube').stat().st_size:,} bytes")
    for town, place in TOWNS.items():
        print(f"shops near the {town}:", release.count(f"{around(place, 0.2)} and kind = 'shop'"))
    print("in the empty south west:", release.count("lon < -5 and lat < 45"))
    print(release.synthesize(5, seed=1).to_pandas().round(3).to_string(index=False))
    print(f"Files are in {folder}")
    return release


if __name__ == "__main__":
    main()
