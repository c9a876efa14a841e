"""Records for the registry of deployments: valid in its schema, true to release and ledger, and nothing invented."""

import re
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dpcube import Domain
from dpcube.cli import commands
from dpcube.core.domain import Category, Integer
from dpcube.core.errors import InputError
from dpcube.core.ledger.ledger import Ledger
from dpcube.curator import publish
from dpcube.release import Release
from dpcube.release.registry import (
    REGISTRY_QUESTIONS,
    as_yaml,
    code_span,
    missing_for_tier_three,
    registry_record,
    rounded_up_epsilon,
)
from dpcube.testing import SilentNoise

verb = import_module("dpcube.cli.analyst.registry")  # whose name the command has in its package
REQUIRED = {
    "name": "Visits",
    "curator": "St. Mary",
    "curator_type": "Nonprofit",
    "intended_use": "planning",
    "region": "UK",
    "published": "2026-01-31",
    "author": "A. Writer",
}
OTHERS = {
    "sector": "Healthcare",
    "releases": "Many releases",
    "data": "Dynamic",
    "units": "5000",
    "trust": "the curator",
    "tuning": "by plan",
    "justification": "asked for",
}
# The facts of schemas/deployments-schema.yaml of opendp/deployments-registry-data: a field's kind or its values; a
# field that must be there has a "!" behind its name. Objects take no other fields.
SCHEMA: dict[str, Any] = {
    "url_slug!": str,
    "deployment!": {
        "basic!": {
            "name!": str,
            "data_curators!": [
                {"data_curator_name!": str, "data_curator_type!": ("Government", "Industry", "Nonprofit")}
            ],
            "description!": str,
            "intended_use!": str,
            "data_product_type!": (
                *("Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API"),
                "SQL queries",
            ),
            "data_product_region!": str,
            "data_product_sector": ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
            "publication_date!": date,
        },
        "dp_variant": {
            "variant_name": ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
            "data_domain": str,
            "unprotected_quantities": str,
        },
        "privacy_loss": {
            "privacy_unit": str,
            "privacy_unit_details": str,
            "number_of_privacy_units": int,
            "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
            "privacy_parameters_details": str,
        },
        "deployment_model": {
            "model_name": ("Local", "Central", "Shuffle", "Federated", "Varies"),
            "model_name_details": str,
            "trust_assumptions": str,
            "actors": str,
            "release_type": ("One release", "Many releases"),
            "release_type_details": str,
            "data_source_type": ("Static", "Dynamic"),
            "data_source_type_details": str,
            "access_type": ("Interactive", "Non-interactive"),
            "access_type_details": str,
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": str,
            "mechanisms": str,
            "composition": str,
            "post_processing": str,
            "justification": str,
            "utility": str,
            "additional_information": str,
        },
        "administrative!": {
            "evidence_sources": dict,
            "status!": ("Converted", "Draft", "Pending", "Changes Required", "Approved"),
            "registry_authors!": [str],
            "tier!": (1, 2, 3),
        },
    },
}


def faults(value: object, schema: Any, at: str = "record") -> list[str]:
    """Return what the schema does not allow of a value."""
    if isinstance(schema, dict):
        if not isinstance(value, Mapping):
            return [f"{at} is no object"]
        allowed = {key.removesuffix("!"): held for key, held in schema.items()}
        wrong = [f"{at} has no {key[:-1]}" for key in schema if key.endswith("!") and key[:-1] not in value]
        wrong += [f"{at}.{key} is unknown" for key in value if key not in allowed]
        return wrong + [f for key in value if key in allowed for f in faults(value[key], allowed[key], f"{at}.{key}")]
    if isinstance(schema, list):
        ok = isinstance(value, list) and value
        return [f for item in value for f in faults(item, schema[0], at)] if ok else [f"{at} is no list"]  # type: ignore[attr-defined]
    if isinstance(schema, tuple):
        return [] if value in schema else [f"{at} is {value!r}"]
    if schema is date:
        known = isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value) and date.fromisoformat(value)
        return [] if known else [f"{at} is no day"]
    if schema is float:
        return [] if isinstance(value, int | float) and not isinstance(value, bool) else [f"{at} is no number"]
    return [] if isinstance(value, schema) and not isinstance(value, bool) else [f"{at} is {value!r}"]


DOMAIN = Domain(Integer("age", 0, 9, outside="clip"), Category("ward", ["a", "b"], unknown="cell"))


@pytest.fixture(scope="module")
def release() -> Release:
    return publish(np.full(DOMAIN.shape, 50), DOMAIN, epsilon="1/3", ledger=None, strategy="cells")


@pytest.fixture
def charged(tmp_path: Path) -> tuple[Path, Path]:
    """A release of a table, and its ledger."""
    table = tmp_path / "visits.csv"
    table.write_text("age,ward\n" + "3,a\n4,b\n" * 400)
    publish(table, DOMAIN, epsilon="1/3", total="1", strategy="cells", save_to=tmp_path / "visits.dpcube")
    return tmp_path / "visits.dpcube", tmp_path / "visits.ledger"


def parts(record: dict[str, object]) -> dict[str, Any]:
    deployment = record["deployment"]
    assert isinstance(deployment, dict)
    return deployment


@pytest.mark.parametrize("said", [REQUIRED, REQUIRED | OTHERS], ids=["required", "all"])
def test_a_record_is_valid_and_survives_yaml(release: Release, said: dict[str, str]) -> None:
    record = registry_record(release, said)
    assert faults(record, SCHEMA) == []
    assert yaml.safe_load(as_yaml(record)) == record
    tokens = {token.style for token in yaml.scan(as_yaml(record)) if hasattr(token, "style")}
    assert tokens <= {None, '"', "|"}  # the registry refuses texts whose lines are joined


def test_the_checker_of_these_tests_finds_faults(release: Release) -> None:
    record = registry_record(release, REQUIRED)
    parts(record)["basic"] |= {"publication_date": "1/1/2026", "surprise": 1, "data_curators": []}
    parts(record)["administrative"] |= {"tier": 4}
    del record["url_slug"]
    assert len(faults(record, SCHEMA)) == 5


def test_what_is_not_said_is_left_out_and_lowers_the_tier(release: Release) -> None:
    little = registry_record(release, REQUIRED)
    assert parts(little)["administrative"]["tier"] == 1
    assert {"data_product_sector"}.isdisjoint(parts(little)["basic"])
    assert {"release_type", "data_source_type", "trust_assumptions"}.isdisjoint(parts(little)["deployment_model"])
    assert {"justification", "preprocessing_and_hyperparameter_tuning"}.isdisjoint(parts(little)["implementation"])
    some = registry_record(release, REQUIRED | {"releases": "One release", "data": "Static"})
    assert parts(some)["administrative"]["tier"] == 2
    assert "implementation.justification" in missing_for_tier_three(some)
    full = registry_record(release, REQUIRED | OTHERS)
    assert parts(full)["administrative"]["tier"] == 3
    assert missing_for_tier_three(full) == []


def test_a_record_tells_what_the_release_does(release: Release) -> None:
    record = parts(registry_record(release, REQUIRED))
    loss = record["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 0.333334}
    assert "Epsilon is 1/3 exactly" in loss["privacy_parameters_details"]
    assert loss["number_of_privacy_units"] == round(release.count().value)
    assert "`age`: integer, `0 to 9`, 10 cells, outside: clip" in record["dp_variant"]["data_domain"]
    assert "`ward`: category, `'a', 'b'`, 3 cells, unknown: cell" in record["dp_variant"]["data_domain"]
    assert release.digest in record["implementation"]["additional_information"]
    assert "strategy `cells`" in record["implementation"]["mechanisms"]


def test_units_are_those_of_the_release(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("age,ward,who\n" + "".join(f"3,a,{k % 90}\n" for k in range(900)))
    made = publish(table, DOMAIN, epsilon="1", strategy="cells", unit="who", max_rows=2)
    loss = parts(registry_record(made, REQUIRED))["privacy_loss"]
    assert loss["privacy_unit"] == "All rows with the same `who`"
    assert "At most 2 rows" in loss["privacy_unit_details"]
    assert "number_of_privacy_units" not in loss  # rows were counted, and not whose they are
    assert parts(registry_record(made, REQUIRED | {"units": "90"}))["privacy_loss"]["number_of_privacy_units"] == 90


def test_a_domain_drafted_from_data_is_said_to_be(release: Release) -> None:
    signed = Domain(DOMAIN.attributes, drafted_from_data=True, signed_public_by="the `owner`")
    made = Release(signed, release.transcript, release.provenance)
    assert (
        "signed as public by `` the `owner` ``"
        in parts(registry_record(made, REQUIRED))["dp_variant"]["unprotected_quantities"]
    )


def test_the_ledger_tells_the_day_and_how_many_releases(charged: tuple[Path, Path]) -> None:
    opened, book = Release.open(charged[0]), Ledger(charged[1])
    said = {key: text for key, text in REQUIRED.items() if key != "published"}
    once = parts(registry_record(opened, said, ledger=book.statement()))
    assert once["basic"]["publication_date"] == book.statement().charges[0].time[:10]
    assert once["deployment_model"]["release_type"] == "One release"
    assert "allows 1 for the table in all; 1/3 of it is spent" in once["privacy_loss"]["privacy_parameters_details"]
    number = book.charge(Fraction(1, 3), strategy="cells", domain="")
    pending = parts(registry_record(opened, said, ledger=book.statement()))
    assert pending["deployment_model"]["release_type"] == "One release"
    book.complete(number, "another")
    twice = parts(registry_record(opened, said, ledger=book.statement()))
    assert twice["deployment_model"]["release_type"] == "Many releases"


def test_a_ledger_tells_its_delta(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "t.ledger", total=Fraction(3), delta=Fraction(1, 10**6))
    made = publish(np.full(DOMAIN.shape, 50), DOMAIN, epsilon="1/3", strategy="cells", ledger=book.path)
    book.charge(Fraction(1), strategy="padding", domain="", delta=Fraction(1, 10**7))
    details = parts(registry_record(made, REQUIRED, ledger=book.statement()))["privacy_loss"]
    assert "It allows delta 1/1000000 besides, for record linkage; 1/10000000 is spent." in str(details)


def test_a_ledger_of_something_else_is_refused(release: Release, charged: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="no charge for this release"):
        registry_record(release, REQUIRED, ledger=Ledger(charged[1]).statement())


def test_an_experiment_has_no_record() -> None:
    from dpcube import evaluate

    made = evaluate.experiment(np.full((3, 3), 9), epsilon="1", strategy="cells", noise=SilentNoise())
    with pytest.raises(InputError, match="NOT PRIVATE"):
        registry_record(made, REQUIRED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": " "}, "name of a record must be text"),
        ({"curator_type": "Company"}, "is one of 'Government', 'Industry', 'Nonprofit', got 'Company'"),
        ({"published": "1/1/2026"}, "a day such as 2026-01-31, got '1/1/2026'"),
        ({"units": "-5"}, "a whole number, got '-5'"),
        ({"author": "\ud800"}, "author of a record must be text"),
    ],
)
def test_what_the_schema_would_refuse_is_refused(release: Release, change: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        registry_record(release, REQUIRED | change)


@given(st.text(min_size=1, max_size=40), st.text(max_size=40))
def test_any_text_survives_yaml_as_it_is_shown(text: str, more: str) -> None:
    value = {"a": {"b": [{"c": text, "d": more}]}, "e": f"{text}\n{more}x"}
    read = yaml.safe_load(as_yaml(value))
    shown = text if text.isprintable() else None
    assert read.keys() == value.keys()
    if shown is not None:
        assert read["a"]["b"][0]["c"] == text


@given(st.text("ab`\\$<", min_size=1, max_size=20))
def test_a_name_cannot_end_its_span_of_code(name: str) -> None:
    span = code_span(name)
    ticks = re.match("`+", span)
    assert ticks is not None
    inside = span[len(ticks[0]) : -len(ticks[0])]
    assert ticks[0] not in re.findall("`+", inside)
    assert inside.strip(" ") == name.strip(" ") or inside == name


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=50).filter(lambda e: e > 0))
def test_epsilon_is_never_understated(epsilon: Fraction) -> None:
    told = Fraction(str(rounded_up_epsilon(epsilon)))
    assert epsilon <= told <= epsilon * (1 + Fraction(1, 10**5))


# --- the verb ---------------------------------------------------------------------------------------------------


def options(said: Mapping[str, str]) -> list[str]:
    return [word for key, text in said.items() for word in (f"--{key.replace('_', '-')}", text)]


def test_every_question_has_an_option() -> None:
    assert list(verb.ANSWERED) == [question.key for question in REGISTRY_QUESTIONS]


def test_the_verb_writes_a_valid_record(charged: tuple[Path, Path], tmp_path: Path) -> None:
    file, words = tmp_path / "record.yaml", ["registry", str(charged[0]), "--ledger", str(charged[1])]
    made = CliRunner().invoke(commands, [*words, *options(REQUIRED | OTHERS), "-o", str(file)])
    assert made.exit_code == 0, made.output
    record = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert faults(record, SCHEMA) == []
    assert record["deployment"]["administrative"]["tier"] == 3
    again = CliRunner().invoke(commands, [*words, *options(REQUIRED), "-o", str(file)])
    assert isinstance(again.exception, InputError)
    assert "exists, and is not replaced" in str(again.exception)


def test_without_a_terminal_what_is_needed_is_named(charged: tuple[Path, Path]) -> None:
    made = CliRunner().invoke(commands, ["registry", str(charged[0]), "--name", "x"])
    assert isinstance(made.exception, InputError)
    assert "--curator, --curator-type, --intended-use, --region, --published, --author;" in str(made.exception)


def test_on_a_terminal_what_is_not_known_is_asked(charged: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "can_ask", lambda: True)
    asked = "Visits\nSt. Mary\nCompany\nNonprofit\nplanning\nUK\nA. Writer\n\nStatic\n\n\n\n\n"
    made = CliRunner().invoke(commands, ["registry", str(charged[0]), "--ledger", str(charged[1])], input=asked)
    assert made.exit_code == 0, made.output
    record = yaml.safe_load(made.stdout)
    assert faults(record, SCHEMA) == []
    assert record["deployment"]["administrative"]["tier"] == 2
    assert "justification" not in record["deployment"]["implementation"]
