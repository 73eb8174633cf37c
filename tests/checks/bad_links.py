"""Slips in what links run at: speed, error correction and negotiation."""

from __future__ import annotations

from typing import Final

from tests.checks.cases import ROOT
from tests.checks.wrong import SMALL, SPINES, Wrong, add_to, swap

ARISTA: Final = (ROOT / "tests" / "docs" / "guides" / "amd-arista.site.yaml").read_text(
    encoding="utf-8"
)
QUANTUM: Final = (ROOT / "examples" / "quantum-ib" / "site.yaml").read_text(encoding="utf-8")
LINK: Final = "mode: routed, cable_length_m: 150"
SET: Final = "speed_gbit_s: 400, fec: rs"
BAD_LINKS: Final[dict[str, Wrong]] = {
    "a speed that no port of the switch has": Wrong(
        SPINES,
        add_to(leaf_01="    links: {speed_gbit_s: 300}"),
        "link-setting",
        "is set to 300 Gbit/s, but a port of an SN5600 has 10, 25, 40, 50, 100, 200, 400 and 800",
        "or remove it.",
        swap(("    links: {speed_gbit_s: 300}\n", "")),
    ),
    "lanes of 100 Gbit/s without error correction": Wrong(
        SPINES,
        add_to(leaf_01="    links: {fec: none}"),
        "link-setting",
        "cannot run at 800 Gbit/s with fec none (and ",
        "set fec to rs",
        swap(("links: {fec: none}", "links: {fec: rs}")),
    ),
    "ends of a link that negotiate and do not": Wrong(
        SPINES,
        swap(
            (f'"spine-01:swp1", {LINK}', f'"spine-01:swp1", autoneg: true, {LINK}'),
            (f'"leaf-01:swp49", {LINK}', f'"leaf-01:swp49", autoneg: false, {LINK}'),
        ),
        "link-match",
        "has autoneg true at one end and false at the other",
        "write the same autoneg at both ends.",
        swap(("autoneg: false", "autoneg: true")),
    ),
    "a speed that one end of a link sets": Wrong(
        SPINES,
        swap((f'"spine-01:swp1", {LINK}', f'"spine-01:swp1", speed_gbit_s: 400, {LINK}')),
        "link-match",
        "is set to 400 Gbit/s at one end, but the other stays at 800",
        "write the same speed_gbit_s at both ends.",
        swap((f'"leaf-01:swp49", {LINK}', f'"leaf-01:swp49", speed_gbit_s: 400, {LINK}')),
        "warning",
    ),
    "negotiation of EOS without a speed": Wrong(
        ARISTA,
        swap((SET, "fec: rs, autoneg: true")),
        "link-setting",
        "EOS writes autoneg together with the speed",
        "add speed_gbit_s, or remove autoneg.",
        swap(("fec: rs, autoneg: true", f"{SET}, autoneg: true")),
    ),
    "a speed of EOS whose lanes are not known": Wrong(
        ARISTA,
        swap((SET, "speed_gbit_s: 25")),
        "link-setting",
        "has 50, 100, 200 and 400 on known lanes (and 1 more port)",
        "or remove it.",
        swap(("speed_gbit_s: 25", SET)),
    ),
    "ports that are set faster than their cards": Wrong(
        ARISTA,
        swap(("ConnectX-7, speed_gbit_s: 400", "ConnectX-7, speed_gbit_s: 200")),
        "link-setting",
        "gpu01 rdma0 has 200 Gbit/s, but its port is set to 400 (and 1 more NIC)",
        "set the port's speed_gbit_s to 200",
        swap((f"links: {{{SET}", "links: {speed_gbit_s: 200, fec: rs")),
    ),
    "a system whose words are not known": Wrong(
        SMALL,
        swap(("    release: 3.9.2504\n", "    release: 3.9.2504\n    links: {fec: rs}\n")),
        "link-setting",
        "fec of port 1/1 cannot be set on Onyx",
        "remove fec, and set it with the switch's commands.",
        swap(("    links: {fec: rs}\n", "")),
    ),
    "a switch of InfiniBand": Wrong(
        QUANTUM,
        swap(("    os: mlnxos\n", "    os: mlnxos\n    links: {speed_gbit_s: 200}\n")),
        "link-setting",
        "cannot be set on MLNX-OS: an InfiniBand link trains",
        "remove links.",
        swap(("    links: {speed_gbit_s: 200}\n", "")),
    ),
}
