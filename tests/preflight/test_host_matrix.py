"""Kinds of hosts that sites have, and what preflight says of each before anything is touched."""

from __future__ import annotations

from pathlib import Path
from typing import NotRequired, TypedDict, cast

import pytest
import yaml

from tests.preflight.lacks import esxi, files, host, settings


class Row(TypedDict):
    """One kind of host."""

    facts: NotRequired[dict[str, str]]
    card: NotRequired[dict[str, str]]
    esxi: NotRequired[dict[str, str]]
    found: dict[str, str]
    says: NotRequired[list[str]]


TEXT = Path(__file__).with_name("host_matrix.yaml").read_text()
MATRIX = cast("dict[str, Row]", yaml.safe_load(TEXT))


@pytest.mark.parametrize("name", MATRIX)
def test_a_kind_of_host_is_accepted_or_refused_with_what_to_do(name: str) -> None:
    row = MATRIX[name]
    hypervisor = (each for key, value in row.get("esxi", {}).items() for each in esxi(key, value))
    facts = row.get("facts")
    found = (*host(facts), *files(facts)) if facts is not None else tuple(hypervisor)
    for setting, value in row.get("card", {}).items():
        found += settings(f"nic.0000:05:00.0.{setting}", value)
    assert {each.rule: each.severity for each in found} == row["found"]
    fixes = " ".join(each.fix for each in found)
    for words in row.get("says", []):
        assert words in fixes
