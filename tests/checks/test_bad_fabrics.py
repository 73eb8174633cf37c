"""Fabrics that cannot be: one problem for one cause, with a fix that passes once it is done."""

from __future__ import annotations

from typing import Final

import pytest

from components.checks.site import CheckedSite, check_loaded
from components.reading.load import parse_site
from tests.checks.bad_links import BAD_LINKS
from tests.checks.wrong import SMALL, SPINES, Edit, Wrong, add_to, each, swap


def rdma(line: str) -> Edit:
    return swap(("mtu_bytes: 9000}", f"mtu_bytes: 9000, {line}}}"))


def trunk(leaf: int, far: int, near_port: int = 48, far_port: int = 48) -> tuple[str, str]:
    """A trunk from a leaf, which has the rail of one less, to another one."""
    head = f"      swp1-8: gpu[01-08]/rail-{leaf - 1}\n"
    return head, f'{head}      swp{near_port}: {{to: "leaf-0{far}:swp{far_port}", rails: []}}\n'


RING: Final = swap(
    *(trunk(1, 2), trunk(2, 1), trunk(1, 3, 47), trunk(3, 1, 48, 47)),
    *(trunk(2, 3, 47, 47), trunk(3, 2, 47, 47)),
)


WRONG: Final[dict[str, Wrong]] = {
    "a ring of three switches": Wrong(
        SPINES,
        RING,
        "link-loop",
        "the link from leaf-02 swp47 to leaf-03 swp47 closes a loop",
        "remove one link of the loop, or make the links routed",
        each(r"      swp47: .*leaf-0[23]:swp47.*\n", ""),
    ),
    "two trunks between two switches": Wrong(
        SPINES,
        swap(trunk(1, 2), trunk(2, 1), trunk(1, 2, 47, 47), trunk(2, 1, 47, 47)),
        "link-loop",
        "the link from leaf-01 swp48 to leaf-02 swp48 closes a loop",
        "remove one link of the loop, or make the links routed",
        each(r"      swp48: .*\n", ""),
    ),
    "an MLAG peer that does not name the switch": Wrong(
        SPINES,
        add_to(leaf_01="    mlag_peer: leaf-03"),
        "mlag-peer",
        "leaf-01 is an MLAG pair with leaf-03, but leaf-03 lacks mlag_peer",
        "write mlag_peer: leaf-01 on leaf-03",
        add_to(leaf_03="    mlag_peer: leaf-01"),
    ),
    "all links of a port that only one end splits": Wrong(
        SPINES,
        swap(
            ('swp49: {to: "spine-01', 'swp49s0: {to: "spine-01'),
            (':swp49", mode', ':swp49s0", mode'),
        ),
        "link-match",
        "has 400 Gbit/s at one end and 800 at the other (and 7 more ports)",
        "split the ports at both ends alike, or neither",
        swap(("swp49s0", "swp49")),
        "warning",
    ),
    "modes that no port of the model has": Wrong(
        SPINES,
        add_to(leaf_01="    breakouts: {swp60: 2x800, swp61: 2x800, swp62: 2x800}"),
        "port-split",
        "port swp60 of an SN5600 cannot be split as 2x800 with cumulus (and 2 more ports)",
        "write 2x400 or 4x200.",
        swap(("2x800", "2x400")),
    ),
    "leaves of one number": Wrong(
        SPINES,
        each(r"asn: 6510[1-8]", "asn: 65100"),
        "routing",
        "leaves leaf-01, leaf-02 and 6 more share asn 65100",
        "give each leaf a different number, for example 65101, 65102 and so on.",
        each(r"asn: 65100, router_id: 10.255.0.([1-8])\}", r"asn: 6510\1, router_id: 10.255.0.\1}"),
    ),
    "loopbacks that are alike": Wrong(
        SPINES,
        each(r"router_id: 10.255.0.\d+", "router_id: 10.255.0.1"),
        "routing",
        "leaf-01 and leaf-02 have the same router_id: 10.255.0.1 (and 6 more switches)",
        "give each switch a different address.",
        lambda _text: SPINES,
    ),
    "loopbacks in a rail": Wrong(
        SPINES,
        each(r"router_id: 10.255.0.", "router_id: 10.10.111."),
        "routing",
        "is in the subnet of rail-0, 10.10.111.0/24 (and 7 more switches)",
        "choose an unused address, for example 10.255.0.1.",
        swap(("router_id: 10.10.111.", "router_id: 10.255.0.")),
    ),
    "a loopback that is a switch's own address": Wrong(
        SPINES,
        swap(("router_id: 10.255.0.1}", "router_id: 192.168.1.12}")),
        "routing",
        "the router_id of leaf-01, 192.168.1.12, is the address of leaf-02",
        "for example 10.255.0.1.",
        swap(("router_id: 192.168.1.12}", "router_id: 10.255.0.1}")),
    ),
    "a loopback that is a host's address": Wrong(
        SPINES,
        swap(("router_id: 10.255.0.1}", "router_id: 192.168.2.11}")),
        "routing",
        "is the address of gpu01",
        "for example 10.255.0.1.",
        swap(("router_id: 192.168.2.11}", "router_id: 10.255.0.1}")),
    ),
    "two rails of one subnet": Wrong(
        SPINES,
        swap(("subnet: 10.10.112.0/24", "subnet: 10.10.111.0/24")),
        "subnet-overlap",
        "the subnet of rail-0, 10.10.111.0/24, overlaps the subnet of rail-1",
        "choose networks that do not overlap.",
        lambda _text: SPINES,
    ),
    "two leaves of one part of a rail": Wrong(
        SPINES,
        swap(
            (
                "{subnet: 10.10.111.128/25, gateway: 10.10.111.129}",
                "{subnet: 10.10.111.0/25, gateway: 10.10.111.2}",
            )
        ),
        "rail-leaf",
        "rail-0 has overlapping subnets on leaf-01, 10.10.111.0/25 and on leaf-05, 10.10.111.0/25",
        "leaf-05: {subnet: 10.10.111.128/25, gateway: 10.10.111.129}}",
        swap(
            (
                "{subnet: 10.10.111.0/25, gateway: 10.10.111.2}",
                "{subnet: 10.10.111.128/25, gateway: 10.10.111.129}",
            )
        ),
    ),
    "networks of links in a rail": Wrong(
        SPINES,
        each(r'(swp49: \{to: "spine-01:swp(\d+)", mode: routed)', r"\1, address: 10.10.111.\2"),
        "link-address",
        "is in the subnet of rail-0, 10.10.111.0/24 (and 7 more ports)",
        "choose unused addresses, for example of 10.254.0.0/16.",
        swap(("address: 10.10.111.", "address: 10.254.0.")),
    ),
    "links too small for BGP": Wrong(
        SPINES,
        lambda text: text.replace("mode: routed, ", "mode: routed, mtu_bytes: 1200, "),
        "link-mtu",
        "has MTU 1200, but the cards send packets of 9000 (and 127 more ports)",
        "raise it to 9000 or more at both ends.",
        swap(("mtu_bytes: 1200, ", "mtu_bytes: 9000, ")),
    ),
    "links too small for the cards of one host": Wrong(
        SPINES,
        swap(
            ("mode: routed, ", "mode: routed, mtu_bytes: 9000, "),
            ("{rail: rail-0, pci", "{rail: rail-0, mtu_bytes: 9100, pci"),
        ),
        "link-mtu",
        "has MTU 9000, but the cards send packets of 9100 (and 127 more ports)",
        "raise it to 9100 or more at both ends.",
        swap(("mtu_bytes: 9000, cable", "mtu_bytes: 9100, cable")),
    ),
    "ports and links too small": Wrong(
        SPINES,
        swap(("port_mtu_bytes: 9216", "port_mtu_bytes: 1500")),
        "mtu-chain",
        "the PF MTU 9000 exceeds the switch port MTU 1500",
        "raise the switch port MTU to 9000",
        swap(("port_mtu_bytes: 1500", "port_mtu_bytes: 9000")),
    ),
    "marking that begins above its end": Wrong(
        SMALL,
        rdma("ecn_min_kib: 1500, ecn_max_kib: 150"),
        "ecn-thresholds",
        "ECN marking begins at 1500 KiB, not below 150 KiB",
        "make ecn_min_kib the smaller one; 150 and 1500 suit",
        swap(("ecn_min_kib: 1500, ecn_max_kib: 150", "ecn_min_kib: 150, ecn_max_kib: 1500")),
    ),
    **{
        f"shares of {{{shares}}}": Wrong(
            SMALL,
            rdma(f"schedule: {{shares: {{{shares}}}}}"),
            rule,
            says,
            fix,
            swap((f"{{shares: {{{shares}}}}}", "{shares: {0: 50, 3: 50}}")),
        )
        for shares, rule, says, fix in (
            ("0: 50, 3: 51", "queue-shares", "101 % of the port", "shares: {0: 50, 3: 50}."),
            ("0: 50, 3: 49", "queue-shares", "99 % of the port", "shares: {0: 50, 3: 50}."),
            ("0: 0, 3: 0", "out-of-range", "must be at least 1 (and 1 more", "at least 1."),
            ("", "queue-shares", "class 3 lacks a share", "shares: {0: 50, 3: 50}."),
            ("0: 40, 3: 40, 6: 20", "queue-shares", "class 6 is strict", "{0: 50, 3: 50}."),
        )
    },
    **{
        f"a probability of {percent}": Wrong(
            SMALL,
            rdma(f"ecn_mark_percent: {percent}"),
            "out-of-range",
            f"rdma.ecn_mark_percent is {percent}, and it must be at {limit}",
            f"write a number at {limit}.",
            swap((f"ecn_mark_percent: {percent}", "ecn_mark_percent: 100")),
        )
        for percent, limit in ((0, "least 1"), (101, "most 100"))
    },
}


def check(text: str) -> CheckedSite:
    return check_loaded(parse_site(text, "site.yaml"), "site.yaml")


@pytest.mark.parametrize("name", WRONG | BAD_LINKS)
def test_one_cause_is_one_problem_and_its_fix_passes(name: str) -> None:
    wrong = (WRONG | BAD_LINKS)[name]
    text = wrong.slip(wrong.site)
    assert text != wrong.site
    (problem,) = check(text).problems
    assert (problem.rule, problem.severity) == (wrong.rule, wrong.severity)
    assert wrong.says in problem.what
    assert wrong.fix in problem.fix
    mended = wrong.mend(text)
    assert mended != text
    assert check(mended).problems == ()
