"""`DESCRIBE cube` and `SHOW TABLES`: what there is to be asked. A domain enters, a table about it leaves."""

import re

import pyarrow as pa

from dpcube.core.domain import Attribute, Domain

DESCRIBING = re.compile(
    r"\s*(?:(?P<table>DESCRIBE|DESC|SHOW)\s+(?:TABLE\s+)?\"?cube\"?|SHOW\s+TABLES)\s*;?\s*", re.IGNORECASE
)


def described(text: str, domain: Domain) -> pa.Table | None:
    """Return the columns of the cube, or the list of tables, if that is what `text` asks for; else None."""
    asked = DESCRIBING.fullmatch(text)
    if asked is None:
        return None
    if asked["table"] is None:
        return pa.table({"name": ["cube"]})
    rows = domain.attributes
    return pa.table(
        {
            "column_name": [a.name for a in rows],
            "column_type": list(map(_type_of, rows)),
            "values": [a.extent() for a in rows],
            "cells": [a.size for a in rows],
            "bins": ["of several values" if a.has_wide_bins else "of one value" for a in rows],
            "own_cells": [", ".join(f"({kind})" for kind in a.own_cells) for a in rows],
        }
    )


def _type_of(attribute: Attribute) -> str:
    """Return the type of an attribute where it is compared, added up or averaged; wide bins are text as group keys."""
    if attribute.scale == "position":
        return "VARCHAR"
    if attribute.scale == "day":
        return "DATE"
    return "DOUBLE" if attribute.has_wide_bins or attribute.is_continuous else "BIGINT"
