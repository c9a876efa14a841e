"""An analyst's first hour with a released file: open it, count, ask much at once, draw.

Read it, or run it: `marimo edit notebooks/analyst.py`. The file beside it is a release of the bundled census table with
epsilon 1; nothing here needs the rows.
"""

import marimo

app = marimo.App(app_title="A first hour with a private cube")


@app.cell
def opening():
    from pathlib import Path

    import marimo as mo
    import numpy as np

    import dpcube

    release = dpcube.open(Path(__file__).parent / "adult.dpcube")
    made = release.provenance
    mo.md(
        f"""
        # A first hour with a private cube

        The file holds {release.domain.size:,} cells over **{", ".join(release.domain.names)}**. It was published once,
        with epsilon {made.epsilon} by the strategy *{made.strategy}*. Whatever is asked of it costs nobody any more
        privacy.
        """
    )
    return dpcube, mo, np, release


@app.cell
def counting(mo, release):
    women = release.count("age between 30 and 39 and sex = 'Female'")
    same = release.count(age=(30, 39), sex="Female")
    assert women == same
    mo.md(
        f"""
        ## Count

        How many women in their thirties? `release.count("age between 30 and 39 and sex = 'Female'")`

        **{women}**

        The value comes with the standard error of the noise, with the error expected from counts that were spread over
        cells counted together, and with an interval for both.
        """
    )
    return (women,)


@app.cell
def asking_much(dpcube, mo, np, release):
    ages = np.arange(16)
    shape = release.domain.shape
    lower = np.zeros((len(ages), len(shape)), int)
    upper = np.tile(shape, (len(ages), 1))
    lower[:, 0], upper[:, 0] = ages, ages + 1
    by_age = release.answer(dpcube.Workload(shape, lower, upper))
    low, high = by_age.interval(0.95)
    rows = [
        {"age": label, "rows": round(value), "low": round(a), "high": round(b)}
        for label, value, a, b in zip(release.domain["age"].labels(), by_age.values, low, high, strict=True)
    ]
    mo.vstack(
        [
            mo.md(
                "## Ask much at once\n\nA `Workload` is thousands of ranges by their cells; here, every group of ages."
            ),
            mo.plain_text("\n".join(f"{r['age']:>6} {r['rows']:>7,} {r['low']:>7,} to {r['high']:>6,}" for r in rows)),
        ]
    )
    return (by_age,)


# Cells on SQL, on views and on synthetic rows go here.


@app.cell
def drawing(release):
    ages_of_women = release.plot("age", where="sex = 'Female'")
    ages_of_women  # noqa: B018 (a cell shows its last expression)
    return (ages_of_women,)


@app.cell
def mapping(release):
    hours = release.plot("age", "hours-per-week")
    hours  # noqa: B018
    return (hours,)


@app.cell
def stages(release):
    how_it_came_about = release.plot("age", "hours-per-week", stages=True)
    how_it_came_about  # noqa: B018
    return (how_it_came_about,)


@app.cell
def trusting(mo, release):
    from dpcube.release.trust import trust

    worth = trust(release)
    lines = "\n".join(f"| {t.question} | {t.answer:,.0f} | {t.half_width:,.1f} |" for t in worth)
    mo.md(
        f"""
## How far to trust it

| question | a typical answer | 95% interval, ± |
|---|---|---|
{lines}

`dpcube report adult.dpcube -o report.html` writes this with the pictures on one page.
        """
    )
    return (worth,)


if __name__ == "__main__":
    app.run()
