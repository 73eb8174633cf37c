"""Each row that we plan is valid in SONiC's YANG: by its leaf types, packed with their branches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml

from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from tests.fabric.in_process import apply
from tests.fabric.sonic_lab import make_switch, rows_of, talk
from tests.fabric.test_sonic_exchange import LOSSLESS, LOSSY
from tests.fabric.whole_intents import Pieces, whole_of

LEAVES: Final[dict[str, dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "forms" / "sonic" / "yang_leaves.yaml").read_text()
)
BRANCHES = (*("202205", "202211", "202305", "202311"), *("202405", "202411", "202505", "202511"))
INTENTS = (
    Pieces(mode="lossless", routed="", links="set"),
    Pieces(mode="lossy_ecn", routed="", links="negotiated"),
    Pieces(mode="lossless", routed="numbered"),
    Pieces(mode="lossy_ecn", routed="unnumbered", bfd=False),
)


def cells_of(release: str) -> Iterator[tuple[str, str, str, Any]]:
    """Table, key, field and value of all that some sites write on a switch of a release."""
    for pieces in INTENTS:
        site = whole_of("sonic", pieces).model_dump(mode="json")
        for switch in site["switches"]:
            switch["release"] = release
            for port in switch["ports"].values() if pieces.mode == "lossless" else ():
                port["cable_length_m"] = 40
        for plan in plan_fabric(ClusterSpec.model_validate(site)):
            for line in plan.commands_from_factory:
                for table, rows in rows_of(line).items():
                    for key, fields in rows.items():
                        yield from ((table, key, field, fields[field]) for field in fields)


def why_invalid(table: str, field: str, value: Any, branch: str) -> str | None:  # noqa: ANN401 - JSON
    """What the YANG model of a branch says against a value; None: nothing."""
    leaf = LEAVES[table].get(field, LEAVES[table].get("*"))
    if leaf is None:
        return f"{table} has no leaf {field}"
    if isinstance(leaf, str):
        leaf = {"pattern": leaf}
    if branch < str(leaf.get("since", "")):
        return f"{table} {field} came with {leaf['since']}"
    texts: list[str] = [str(value)] if not isinstance(value, list) else cast("list[str]", value)
    wrong = [text for text in texts if not _fits(text, leaf)]
    return f"{table} {field}: {wrong[0]} is none of {next(iter(leaf.values()))}" if wrong else None


def _fits(text: str, leaf: dict[str, Any]) -> bool:
    low, high = leaf.get("range", (0, 0))
    if high:
        return text.isdigit() and low <= int(text) <= high
    return re.fullmatch(leaf["pattern"], text) is not None


@pytest.mark.parametrize("branch", BRANCHES)
def test_planned_rows_are_valid(branch: str) -> None:
    found = {why_invalid(table, f, v, branch) for table, _, f, v in cells_of(branch)} - {None}
    known = {f"{table} admin_status: true is none of up|down" for table in BGP}
    assert found == (known if branch < "202505" else set()), "frrcfgd of older ones takes no `up`"


BGP = ("BGP_NEIGHBOR", "BGP_NEIGHBOR_AF")


@pytest.mark.parametrize("desired", [LOSSLESS, LOSSY])
def test_what_an_apply_leaves_over_the_template_is_valid(
    desired: SwitchState, tmp_path: Path
) -> None:
    """An empty `pfc_enable`, which `pfc config` leaves, would not be."""
    switch = make_switch(tmp_path)
    apply(talk(switch), desired)
    rows = switch.stored.running
    found = {
        why_invalid(table, field, value, "202505")
        for table in ("PORT_QOS_MAP", "QUEUE", "CABLE_LENGTH", "SCHEDULER", "WRED_PROFILE")
        for fields in rows[table].values()
        for field, value in fields.items()
    }
    assert found == {None}


def test_the_sites_reach_every_table() -> None:
    assert {table for table, *_ in cells_of("202505")} == {*LEAVES} - {"BUFFER_PG"}


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("PORT", "mtu", "67"),
        ("PORT", "fec", "rs544"),
        ("PFC_WD", "detection_time", "99"),
        ("BGP_NEIGHBOR", "admin_status", "true"),
        ("CABLE_LENGTH", "Ethernet0", "40"),
        ("QUEUE", "weight", "1"),
        ("PORT_QOS_MAP", "pfc_enable", ""),
    ],
)
def test_a_wrong_value_is_found(table: str, field: str, value: str) -> None:
    assert why_invalid(table, field, value, "202505")
