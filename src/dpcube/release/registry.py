"""A record for the public registry of deployments of differential privacy (opendp/deployments-registry-data).

A release enters, with the ledger that was charged for it and what its publisher says; a record in the registry's schema
leaves. What neither file states is requested from the publisher or left out: nothing is guessed, and access to rows is
not needed. The record states the tier that it reaches: 3 if all is filled in.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from dpcube.core.domain import Attribute
from dpcube.core.domain.attribute import listing
from dpcube.core.domain.text import is_text
from dpcube.core.errors import InputError
from dpcube.core.ledger.ledger import Charge, Statement
from dpcube.release.explain import measured
from dpcube.release.plots.axis import LONGEST_NAME, in_rows, printable
from dpcube.release.release import Release
from dpcube.release.trust import doubts, trust

RegistryFields = dict[str, object]
DESTINATIONS = ("null", "unknown", "nan", "outside", "infinite")
"""What a domain says of values that fit no bin, where it says other than that their rows are dropped."""
DROPPED = "A row with a value that fits none of these is dropped, unless another destination is named."


@dataclass(frozen=True, slots=True)
class RegistryQuestion:
    """A fact that only the publisher can state: its place in a record, its question, and the allowed answers."""

    key: str
    words: str
    required: bool = False
    choices: tuple[str, ...] = ()


REGISTRY_QUESTIONS = (
    RegistryQuestion("name", "The name of the data product", required=True),
    RegistryQuestion("curator", "Who publishes it", required=True),
    RegistryQuestion("curator_type", "What they are", required=True, choices=("Government", "Industry", "Nonprofit")),
    RegistryQuestion("intended_use", "What it is to be used for", required=True),
    RegistryQuestion("region", "The region that it describes, or whose law applies", required=True),
    RegistryQuestion("published", "The day of publication, YYYY-MM-DD", required=True),
    RegistryQuestion("author", "Who writes this record", required=True),
    RegistryQuestion(
        "sector", "The sector", choices=("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
    ),
    RegistryQuestion("releases", "Is it published once or again and again", choices=("One release", "Many releases")),
    RegistryQuestion("data", "Do new rows come in over time (Dynamic) or not (Static)", choices=("Static", "Dynamic")),
    RegistryQuestion("units", "Roughly how many units are protected, if that is public"),
    RegistryQuestion("trust", "Who is trusted with what, and why"),
    RegistryQuestion("tuning", "How epsilon, bins and settings were chosen, and whether rows were looked at for it"),
    RegistryQuestion("justification", "Why these choices were made"),
)
"""In the order in which they are asked."""
SECOND_TIER = {
    "dp_variant": ("variant_name",),
    "privacy_loss": ("privacy_unit", "privacy_parameters"),
    "deployment_model": ("model_name", "release_type", "data_source_type", "access_type"),
}
THIRD_TIER = {
    "dp_variant": ("data_domain", "unprotected_quantities"),
    "privacy_loss": ("privacy_unit_details", "number_of_privacy_units"),
    "deployment_model": ("trust_assumptions", "actors"),
    "implementation": (
        *("preprocessing_and_hyperparameter_tuning", "mechanisms", "composition", "post_processing"),
        *("justification", "utility"),
    ),
}


def registry_record(release: Release, answers: Mapping[str, str], *, ledger: Statement | None = None) -> RegistryFields:
    """Return the record of a release.

    `answers` are the publisher's, by the keys of REGISTRY_QUESTIONS, and `ledger` is the one that was charged for it.
    """
    if not release.provenance.private:
        msg = (
            "this release is NOT PRIVATE (made with test noise, or an experiment), so there is no deployment to record"
        )
        raise InputError(msg)
    charge = None if ledger is None else _charge_of(release, ledger)
    known = {} if charge is None else {"published": charge.time[:10]}
    said = _checked({**known, **{key: text for key, text in answers.items() if text}})
    deployment: dict[str, RegistryFields] = {
        "basic": _basic(release, said),
        "dp_variant": _variant(release),
        "privacy_loss": _privacy_loss(release, said, ledger),
        "deployment_model": _model(said, ledger),
        "implementation": _implementation(release, said),
    }
    administrative = {"status": "Draft", "registry_authors": [said["author"]], "tier": _tier(deployment)}
    slug = "-".join(map(_slug, (said["name"], said["curator"], said["published"][:4])))
    return {"url_slug": slug, "deployment": {**deployment, "administrative": administrative}}


def unanswered(answers: Mapping[str, str], *, ledger: bool) -> list[RegistryQuestion]:
    """Return the questions to ask; the day of a release is in its ledger."""
    return [
        q for q in REGISTRY_QUESTIONS if not answers.get(q.key) and not (ledger and q.key in ("published", "releases"))
    ]


def basic(record: RegistryFields) -> RegistryFields:
    """Return the part of a record that says what the data product is, and whose."""
    deployment = record["deployment"]
    assert isinstance(deployment, dict)
    found: RegistryFields = deployment["basic"]
    return found


def missing_for_tier_three(record: RegistryFields) -> list[str]:
    """Return the fields without which a record is not of the third tier."""
    deployment = record["deployment"]
    assert isinstance(deployment, dict)
    tiers = (*SECOND_TIER.items(), *THIRD_TIER.items())
    return [f"{part}.{key}" for part, keys in tiers for key in keys if key not in deployment[part]]


def _checked(said: dict[str, str]) -> dict[str, str]:
    """Return what was said, or refuse what the schema would."""
    for question in REGISTRY_QUESTIONS:
        text = said.get(question.key)
        if text is None and question.required:
            msg = f"a record needs {question.key}: {question.words.lower()}; the release file does not contain it"
            raise InputError(msg)
        if text is not None and not (is_text(text) and text.strip()):
            msg = f"{question.key} of a record must be text, got {text!r}"
            raise InputError(msg)
        if text is not None and question.choices and text not in question.choices:
            msg = f"{question.key} of a record is one of {listing(question.choices)}, got {text!r}"
            raise InputError(msg)
    try:
        date.fromisoformat(said["published"])
    except ValueError:
        msg = f"published is a day such as 2026-01-31, got {said['published']!r}"
        raise InputError(msg) from None
    if "units" in said and not re.fullmatch("[0-9]{1,15}", said["units"]):
        msg = f"units is roughly how many units are protected, a whole number, got {said['units']!r}"
        raise InputError(msg)
    return said


def _charge_of(release: Release, ledger: Statement) -> Charge:
    for charge in ledger.charges:
        if charge.digest == release.digest:
            return charge
    msg = "the ledger has no charge for this release; name the one that was charged for it, or none"
    raise InputError(msg)


def _basic(release: Release, said: Mapping[str, str]) -> RegistryFields:
    names = ", ".join(code_span(name) for name in release.domain.names)
    described = f"Noisy counts over {names}, as one file of {release.domain.size:,} cells that can be asked for ever."
    made = {
        "name": said["name"],
        "data_curators": [{"data_curator_name": said["curator"], "data_curator_type": said["curator_type"]}],
        "description": described,
        "intended_use": said["intended_use"],
        "data_product_type": "Summary statistics",
        "data_product_region": said["region"],
        "publication_date": said["published"],
    }
    return {**made, **({"data_product_sector": said["sector"]} if "sector" in said else {})}


def _variant(release: Release) -> RegistryFields:
    attributes = "\n".join(f"- {_attribute(attribute)}" for attribute in release.domain.attributes)
    rows = "all rows" if release.provenance.period is None else f"the rows of {code_span(release.provenance.period)}"
    stamped = (
        "Bounds and values were drafted from the data and signed as public by "
        f"{code_span(release.domain.signed_public_by or 'nobody')}."
        if release.domain.drafted_from_data
        else "Bounds and values of attributes are declared as public; the file records no use of the data for them."
    )
    return {
        "variant_name": "Pure DP",
        "data_domain": f"Tables of any number of rows ({rows}), each with\n\n{attributes}\n\n{DROPPED}",
        "unprotected_quantities": f"No count is published without noise. {stamped}",
    }


def _attribute(attribute: Attribute) -> str:
    extent = code_span(printable(attribute.extent(), longest=LONGEST_NAME))
    declared = attribute.declaration()
    irregular = "".join(f", {kind}: {declared[kind]}" for kind in DESTINATIONS if kind in declared)
    return f"{code_span(attribute.name)}: {attribute.kind}, {extent}, {attribute.size:,} cells{irregular}"


def _privacy_loss(release: Release, said: Mapping[str, str], ledger: Statement | None) -> RegistryFields:
    made, total = release.provenance, release.count()
    unit = "One row" if made.unit is None else f"All rows with the same {code_span(made.unit)}"
    adjacent = "Tables are adjacent if one is the other with one row added or removed."
    if made.unit is not None:
        adjacent = (
            f"Tables are adjacent if one is the other with all rows of one value of {code_span(made.unit)} added or "
            f"removed. At most {made.max_rows:,} rows of each value are counted."
        )
    details = f"Epsilon is {made.epsilon} exactly, for everything in this release."
    if ledger is not None:
        details += f" A ledger allows {ledger.total} for the table in all; {ledger.spent} of it is spent so far."
        if ledger.total_delta:
            details += (
                f" It allows delta {ledger.total_delta} besides, for record linkage; {ledger.spent_delta} is spent."
            )
    elif not made.ledger:
        details += " No ledger was kept for it."
    record: RegistryFields = {"privacy_unit": unit, "privacy_unit_details": adjacent}
    if "units" in said:
        record["number_of_privacy_units"] = int(said["units"])
    elif made.unit is None and total.low > 0:
        record["number_of_privacy_units"] = round(total.value)
        details += " The number of units is the release's own noisy total of the rows that were counted."
    return {
        **record,
        "privacy_parameters": {"epsilon": rounded_up_epsilon(made.epsilon)},
        "privacy_parameters_details": details,
    }


def rounded_up_epsilon(epsilon: Fraction) -> float:
    """Return epsilon as a number of six digits, never below it.

    >>> rounded_up_epsilon(Fraction(1, 3)), rounded_up_epsilon(Fraction(1, 10))
    (0.333334, 0.1)
    """
    digits = 5 - math.floor(math.log10(epsilon))
    scaled = epsilon * Fraction(10) ** digits
    return float(f"{math.ceil(scaled)}e{-digits}")


def _model(said: Mapping[str, str], ledger: Statement | None) -> RegistryFields:
    record: RegistryFields = {
        "model_name": "Central",
        "actors": "- The curator has the table, counts it and adds noise.\n"
        "- Whoever is given the file sees noisy counts, the domain and the parameters, and no row.",
        "access_type": "Non-interactive",
        "access_type_details": "Questions are answered from the released file; the table is not asked again.",
    }
    digests = set() if ledger is None else {charge.digest for charge in ledger.charges if charge.digest is not None}
    if "releases" in said:
        record["release_type"] = said["releases"]
    elif ledger is not None:
        record["release_type"] = "One release" if len(digests) == 1 else "Many releases"
        record["release_type_details"] = f"Releases of the table in its ledger so far: {len(digests)}."
    record |= {"data_source_type": said["data"]} if "data" in said else {}
    return record | ({"trust_assumptions": said["trust"]} if "trust" in said else {})


def _implementation(release: Release, said: Mapping[str, str]) -> RegistryFields:
    made, best = release.provenance, code_span(release.default_estimate)
    kinds = trust(release)
    errors = "\n".join(
        f"- {code_span(t.question)}: 95% intervals of about ± {in_rows(t.half_width)} rows" for t in kinds
    )
    chosen = bool(release.transcript.selections)
    record: RegistryFields = {
        "mechanisms": (
            f"- Two-sided geometric noise (the discrete Laplace mechanism) on whole counts"
            f"{', and report-noisy-max with its one-sided form for selections' if chosen else ''}.\n"
            f"- Library: {code_span(made.library)}, strategy {code_span(made.strategy)}.\n"
            "- Noise is drawn exactly in whole numbers from a cryptographic source: no floating-point number stands "
            "between epsilon and the noise, in work that does not depend on what is drawn (ties apart)."
        ),
        "composition": (
            "Sequential and parallel composition, accounted exactly for every cell in whole units of epsilon / 2^40. "
            "Measured:\n\n" + "\n".join(f"- {code_span(str(row))}" for row in measured(release))
        ),
        "post_processing": (
            f"None in the file, which contains the signed noisy counts. Answers come from the estimate {best}, "
            "computed from them by the analyst."
        ),
        "utility": f"Typical errors, by kind of question:\n\n{errors}"
        + (f"\n\n{doubts(kinds)}" if doubts(kinds) else ""),
        "additional_information": f"SHA-256 digest of the release: {release.digest}",
    }
    fields = {"tuning": "preprocessing_and_hyperparameter_tuning", "justification": "justification"}
    return record | {field: said[key] for key, field in fields.items() if key in said}


def _tier(deployment: Mapping[str, RegistryFields]) -> int:
    def filled(tier: Mapping[str, tuple[str, ...]]) -> bool:
        return all(key in deployment[part] for part, keys in tier.items() for key in keys)

    return 1 if not filled(SECOND_TIER) else 3 if filled(THIRD_TIER) else 2


def _slug(text: str) -> str:
    return re.sub(r"[\W_]+", "-", text.lower()).strip("-")


def code_span(text: str) -> str:
    """Return a name escaped for Markdown: the registry renders Markdown and LaTeX, and a name may contain either.

    >>> code_span("<b>"), code_span("a`b")
    ('`<b>`', '`` a`b ``')
    """
    shown = printable(text, longest=LONGEST_NAME)
    ticks = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"`{shown}`" if len(ticks) == 1 else f"{ticks} {shown} {ticks}"


def as_yaml(value: object, indent: str = "") -> str:
    r"""Return plain values as YAML; text is quoted as JSON is, or a block of lines.

    >>> print(as_yaml({"a": {"b": 1}, "c": ["x: y"], "d": "two\nlines"}))
    a:
      b: 1
    c:
      - "x: y"
    d: |2-
      two
      lines
    """
    lines = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            between = "\n" if isinstance(item, Mapping | list) else " "
            lines.append(f"{indent}{key}:{between}{as_yaml(item, indent + '  ')}")
        return "\n".join(lines)
    if isinstance(value, list):
        items = (as_yaml(item, indent + "  ") for item in value)
        return "\n".join(f"{indent}- {item.removeprefix(indent + '  ')}" for item in items)
    if isinstance(value, str) and "\n" in value:
        shown = (printable(line, longest=len(line)) for line in value.split("\n"))
        return "|2-\n" + "\n".join(f"{indent}{line}".rstrip() for line in shown)
    return json.dumps(printable(value, longest=len(value)) if isinstance(value, str) else value, ensure_ascii=False)
