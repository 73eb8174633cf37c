"""One mistake is few problems, and the first fix leads out of it and never back.

Each mistake is made in a site without problems. What the first fix of the report says is then done
to the text as a user would do it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from components.checks.site import load_checked_site
from components.cli.group import app
from components.core.problem import Finding
from tests.checks.cases import CASES, CLEAN, ROOT

BASES: Final = {
    "clean": CLEAN,
    "spine-leaf": ROOT / "examples" / "spine-leaf" / "site.yaml",
    "quantum-ib": ROOT / "examples" / "quantum-ib" / "site.yaml",
    "mixed-fabric": ROOT / "examples" / "mixed-fabric" / "site.yaml",
    "cumulus": ROOT / "examples" / "esxi-roce" / "cumulus.yaml",
}
MOST: Final = 3
_LOGINS: Final = '    ssh: {address: "192.168.2.[11-26]"}'
_SLOW: Final = "{gpu01: {nics: [{rail: rail-0, speed_gbit_s: 200}]}}"
"""One card of the sixteen hosts runs at another speed."""


@dataclass(frozen=True)
class Mistake:
    """An edit of a sound site, and the edit that the first fix asks for."""

    base: str
    old: str
    new: str
    fix: str
    """Words of the first fix."""
    mended: tuple[str, str] | None = None
    """What a user who does it replaces, and by what; None: the text of before comes back."""
    every: bool = False
    """The mistake is made wherever `old` is."""

    @property
    def wrong(self) -> str:
        text = BASES[self.base].read_text(encoding="utf-8")
        assert self.old in text
        return text.replace(self.old, self.new, -1 if self.every else 1)

    @property
    def after_fix(self) -> str:
        if self.mended is None:
            return BASES[self.base].read_text(encoding="utf-8")
        assert self.mended[0] in self.wrong
        return self.wrong.replace(*self.mended)


def taken_back(base: str, old: str, new: str, fix: str, *, every: bool = False) -> Mistake:
    """A mistake whose first fix is the text of before."""
    return Mistake(base, old, new, fix, None, every)


_PCI, _GUID = '"0000:84:00.0", netdev: enp132s0', '"a088:c203:0001:1010"'
_REPOSITORY = f'{{url: /opt/doca, key: /opt/doca.gpg, key_sha256: "{"ab" * 32}"}}'
MISTAKES: Final = (
    taken_back("clean", "numa: 1}", "numa: 1, speed_gbit_s: 50}", "correct the speed"),
    taken_back("clean", "vfs: 8", "model: ConnectX-77, vfs: 8", "describe it in", every=True),
    taken_back("clean", "vfs: 8", "speed_gbit_s: 400, vfs: 8", "correct the speed", every=True),
    Mistake("clean", "dscp: 26", "dscp: 26, cnp_dscp: 26", "cnp_dscp 48",
            ("cnp_dscp: 26", "cnp_dscp: 48")),
    Mistake("clean", "release: 3.9.2504", "release: 3.6.1", "upgrade it to 3.8.2000",
            ("release: 3.6.1", "release: 3.8.2000")),
    taken_back("clean", "model: SN2700", "model: SN2701", "use one of"),
    taken_back("clean", "os: onyx", "os: nvos", "choose one of"),
    taken_back("clean", "os: onyx", "os: eos", "set os to onyx or cumulus"),
    Mistake("clean", "ipam: whereabouts", "ipam: host-local", "choose one of: whereabouts",
            ("ipam: host-local", "ipam: whereabouts")),
    taken_back("clean", "ipam: whereabouts", "ipam: dhcp", "set ipam to whereabouts"),
    Mistake("clean", "{kind: present}", '{kind: present, version: "24.10-1.1.4.0", source: /a.tgz}',
            "remove source, version", (', version: "24.10-1.1.4.0", source: /a.tgz', "")),
    Mistake("clean", "{kind: present}", '{kind: doca_ofed, version: "3.2.0"}', "repository",
            ('"3.2.0"', f'"3.2.0", repository: {_REPOSITORY}')),
    taken_back("clean", "secret: switch_password", "secrets: switch_password",
               "correct the spelling"),
    taken_back("clean", "role: control_plane", "role: worker", ""),
    taken_back("clean", _PCI, '"0000:05:00.0"', "each NIC is one PCI function"),
    taken_back("clean", '"1/4": gpu02/rail-1', '"1/4": gpu02/rail-0', ""),
    taken_back("clean", "name: gpu02", "name: gpu01", ""),
    taken_back("clean", "mtu_bytes: 9000", "mtu_bytes: 9300", ""),
    taken_back("clean", "10.10.112.0/24", "10.10.111.0/24", ""),
    taken_back("clean", "vlan: 112", "vlan: 111", ""),
    taken_back("clean", "rail: rail-1, pci", "rail: rail1, pci", ""),
    taken_back("clean", "gpus: 8", "gpus: 4", ""),
    Mistake("spine-leaf", '"spine-01:swp1"', '"spine-1:swp1"', "correct the name of the switch",
            ('"spine-1:swp1"', '"spine-01:swp1"')),
    Mistake("spine-leaf", "release: 5.11.0", "release: 4.4.0", "upgrade it to 5.6",
            ("release: 4.4.0", "release: 5.11.0"), every=True),
    taken_back("spine-leaf", "mode: lossless", "mode: lossles", "choose one of"),
    taken_back("spine-leaf", _LOGINS, f"{_LOGINS}\n    each: {_SLOW}", "correct the speed"),
    taken_back("spine-leaf", "mode: routed", "mode: access", "mode: routed", every=True),
    taken_back("quantum-ib", _GUID, '"a088:c203:0001:10"', ""),
    taken_back("cumulus", "  cnp_dscp: 48\n", "  cnp_dscp: 48\n  ecn_min_kib: 1600\n",
               "make ecn_min_kib the smaller one"),
    taken_back("mixed-fabric", '"4.32.1F"', '"4.15.0F"', "upgrade it to 4.28"),
)  # fmt: skip


def _problems(folder: Path, text: str) -> tuple[Finding, ...]:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return load_checked_site(path).problems


@pytest.mark.parametrize("base", BASES)
def test_the_bases_are_sound(tmp_path: Path, base: str) -> None:
    assert _problems(tmp_path, BASES[base].read_text(encoding="utf-8")) == ()


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.new[:40])
def test_one_mistake_is_few_problems(tmp_path: Path, mistake: Mistake) -> None:
    found = _problems(tmp_path, mistake.wrong)
    assert 1 <= len(found) <= MOST, [each.what for each in found]
    assert mistake.fix in found[0].fix


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.new[:40])
def test_the_first_fix_leads_out(tmp_path: Path, mistake: Mistake) -> None:
    before = _problems(tmp_path, mistake.wrong)
    after = _problems(tmp_path, mistake.after_fix)
    assert len(after) < len(before), [each.what for each in after]
    assert not {each.rule for each in after} - {each.rule for each in before}, "a new problem"


def test_json_has_all_places_of_a_group(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    wrong = taken_back("spine-leaf", "mode: routed", "mode: access", "", every=True).wrong
    path.write_text(wrong, encoding="utf-8")
    data = json.loads(CliRunner().invoke(app, ["check", "--format", "json", str(path)]).stdout)
    (links, *_) = [each for each in data["problems"] if each["rule"] == "link-form"]
    ends = wrong.count("mode: access")
    assert (links["more"], len(links["where"])) == (ends - 1, ends)
    text = CliRunner().invoke(app, ["check", str(path)]).stdout
    assert f"(and {ends - 1} more ports)." in text
    assert f"and {ends - 4} more places" in text


def test_a_warning_stays_one(tmp_path: Path) -> None:
    """It is never joined to an error, and says what it is."""
    text = CASES["numa-leaf"].text()
    (found,) = _problems(tmp_path, text)
    assert (found.severity, found.more) == ("warning", 1)


def _two_makers(folder: Path, *links: str) -> tuple[Finding, ...]:
    """EOS and SONiC with links between them, each with these words after its far end."""
    text = BASES["mixed-fabric"].read_text(encoding="utf-8")
    for after, ours, far, theirs in (
        ('"Ethernet2/1": gpu02/rail-2\n', ("3/1", "4/1"), "leaf-04", ("16", "24")),
        ('"Ethernet8": gpu02/rail-3\n', ("16", "24"), "leaf-03", ("3/1", "4/1")),
    ):
        lines = [
            f'      "Ethernet{one}": {{to: "{far}:Ethernet{other}", {words}}}\n'
            for one, other, words in zip(ours, theirs, links, strict=False)
        ]
        text = text.replace(after, after + "".join(lines), 1)
    return _problems(folder, text)


def test_no_two_fixes_point_at_each_other(tmp_path: Path) -> None:
    """Two trunks are a loop: one of the links goes, or both are routed, and each way passes."""
    (loop,) = _two_makers(tmp_path, "mode: trunk", "mode: trunk")
    assert loop.rule == "link-loop"
    assert "remove one link of the loop, or make the links routed" in loop.fix
    routed = _two_makers(tmp_path, "mode: routed", "mode: routed")
    assert {each.rule for each in routed} == {"routing"}, "numbers and gateways are what is missing"
    assert all(each.fix.startswith("add routing: {asn: 65101, router_id:") for each in routed)
    assert _two_makers(tmp_path, "mode: trunk") == ()
