"""The table of evidence: what carries each claim of the README, and its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import yaml

from components.model.units import Frozen
from tests.docs.markdown import ROOT

TABLE: Final = Path(__file__).parent / "proven.yaml"
PAGE: Final = ROOT / "docs" / "explanation" / "what-is-proven.md"
Kind = Literal["hardware", "kernel", "program", "sourced", "guess", "itself"]
KINDS: Final[Mapping[Kind, tuple[str, str]]] = {
    "hardware": (
        "real hardware",
        "recorded output of a program; Railyard configured nothing there",
    ),
    "kernel": (
        "real kernel",
        "a test on one: virtual machines (`make lab-vm`), or real nodes (`make lab-pods`)",
    ),
    "program": ("real program", "the program itself, on a simulated base"),
    "sourced": (
        "emulation with source",
        "a device or service written after documents, public code or captures",
    ),
    "guess": ("emulation by guess", "no source shows how the real device behaves"),
    "itself": ("Railyard alone", "text in, text out, without a device"),
}
"""Kinds of proof, the strongest first; the last one is beside that order."""


class Proof(Frozen):
    """One part of a claim, with the strongest proof that there is of it."""

    what: str
    proof: Kind
    program: str = ""
    """Which program is real; of that kind alone."""
    tests: tuple[str, ...]
    recorded: tuple[str, ...] = ()
    """Files of real output."""
    sources: tuple[str, ...] = ()
    """Headings of lab/sources.md."""
    not_proven: str


class Table(Frozen):
    """Proofs of the README's features, of the examples, and of the real parts of the lab."""

    claims: dict[str, tuple[Proof, ...]]
    sites: dict[str, tuple[Proof, ...]]
    lab: dict[str, tuple[Proof, ...]]

    def every(self) -> Iterator[tuple[str, Proof]]:
        for part in (self.claims, self.sites, self.lab):
            for claim, proofs in part.items():
                yield from ((claim, proof) for proof in proofs)


def load_table() -> Table:
    return Table.model_validate(yaml.safe_load(TABLE.read_text()))


_HEAD: Final = """\
# What is proven

Each claim of the [README](../../README.md#features) with its strongest proof, its tests, and its
gaps. This page is generated from `tests/docs/proven.yaml`. Tests check that each claim has a row,
that each test exists in the stage of its proof, and that each recording has a source.

**In short:** Railyard has never configured a real switch, RDMA card or ESXi, or a cluster with one.
From real hardware there are NCCL logs of one and two H100, of machines with two and four H200, and
logs that others published. Real kernels have run the hosts' scripts and the pods' plan, without
such cards.
"""


def render_page(table: Table) -> str:
    """Write the page."""
    counted = [proof.proof for _, proof in table.every()]
    lines = [_HEAD, "| Proof | Meaning | Rows |", "|---|---|---|"]
    lines += [
        f"| {name} | {text} | {counted.count(kind)} |" for kind, (name, text) in KINDS.items()
    ]
    lines += [
        "",
        "The kind of proof describes Railyard's counterpart in the test, not the test's quality.",
        "",
    ]
    parts = (
        ("Features", table.claims),
        ("The sites", table.sites),
        ("Real parts of the lab", table.lab),
    )
    for title, claims in parts:
        lines += [f"## {title}", ""]
        for claim, proofs in claims.items():
            lines += [f"### {claim.rstrip('.')}", "", *map(_item, proofs), ""]
    return "\n".join(lines).rstrip() + "\n"


def _item(proof: Proof) -> str:
    kind = KINDS[proof.proof][0] + (f": {proof.program}" if proof.program else "")
    gap = proof.not_proven.strip().rstrip(".")
    return f"- **{proof.what}** ({kind}). Not proven: {gap}.<br>{_carriers(proof)}"


def _carriers(proof: Proof) -> str:
    shown = [f"`{test}`" for test in (*proof.recorded, *proof.tests)]
    shown += [f"[{anchor}](../../lab/sources.md#{anchor})" for anchor in proof.sources]
    return "<br>".join(shown)
