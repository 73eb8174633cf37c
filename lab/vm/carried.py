"""The site's plan for the guests, less what only an NVIDIA card can carry.

The plan is the product's own: model, checks, plan and scripts as for any site. A card of the
emulated kind (igb) has VFs, VLANs, MTU and pause frames, but none of mlx5's quality of service, so
these settings are left out, by name and each with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from components.checks.site import load_checked_site
from components.core.errors import DeviceError
from components.core.key_values import HostState, parse_state
from components.core.record import record, replace
from components.hosts.host_plan import (
    HostPlan,
    host_names,
    host_settings,
    plan_hosts,
    with_boot_unit,
)
from components.model.cluster import ClusterSpec

SITE: Final = Path(__file__).with_name("site.yaml")
STEP_DEADLINE_S: Final = 900.0
"""In place of the step's own: where every instruction is emulated a run takes minutes."""
_DCB: Final = "mlnx_qos: DCB of mlx5; igb has none"
_NO_RDMA: Final = "igb is no RDMA device: no GID, and no folder in rdma_cm's configfs"
LEFT_OUT: Final = {
    r"docker\..*": "its packages are not in the image, and the guests reach nothing",
    r"nic\..*\.model": "the card is an igb, not a ConnectX",
    r"nic\..*\.(trust|pfc|dscp\d+_priority)": _DCB,
    r"nic\..*\.(dcbx|lldpad|buffers|cable_length_m)": _DCB,
    r"nic\..*\.(ecn_priority_\d|cnp_dscp|cnp_priority)": "/sys/class/net/*/ecn: mlx5 of OFED only",
    r"nic\..*\.(roce_mode|gid|(vf_)?(roce_tos|traffic_class))": _NO_RDMA,
}
"""Settings to why these machines cannot have them."""


@record
class Carried:
    """One host's plan as its guest gets it."""

    plan: HostPlan
    left_out: Mapping[str, str]
    """Setting to the reason."""


def plan_guests(
    ports: Mapping[str, int], folder: Path, site: Path = SITE
) -> tuple[ClusterSpec, tuple[Carried, ...]]:
    """Check and plan the site of the guests.

    Args:
        ports: Guest to the loopback port of its SSH; empty where the file has them.
        folder: Where the site's file with these ports is written.
        site: The site's file.

    Raises:
        DeviceError: The product's own checks refuse the site.
    """
    text = site.read_text()
    for name, port in ports.items():
        text = text.replace(f"PORT_{name.upper()}", str(port))
    file = folder / "site.yaml"
    file.write_text(text)
    checked = load_checked_site(file)
    if checked.spec is None:
        raise DeviceError("\n".join(problem.what for problem in checked.problems))
    spec = checked.spec
    pairs = zip(spec.hosts, plan_hosts(spec), strict=True)
    names = host_names(spec)
    return spec, tuple(
        carry(plan, host_settings(spec, host, names.get(host.name)))
        for host, plan in pairs
        if host.role == "worker"
    )


def carry(plan: HostPlan, settings: Mapping[str, str]) -> Carried:
    """The same plan without what the guest's card cannot have.

    Args:
        plan: Of the product.
        settings: What that plan was made of.
    """
    values = plan.desired.values
    left_out = {key: reason for key in values if (reason := _reason(key))}
    desired = with_boot_unit(_without(settings))
    parameters = {
        key: value
        for key, value in parse_state(plan.converge.desired).values.items()
        if key not in values
    }
    step = replace(
        plan.converge,
        desired=HostState({**desired.values, **parameters}).render(),
        deadline_s=STEP_DEADLINE_S,
    )
    carried = replace(plan, desired=desired, steps=(step, *plan.steps[1:]))
    return Carried(carried, left_out)


def _reason(key: str) -> str:
    return next((why for pattern, why in LEFT_OUT.items() if re.fullmatch(pattern, key)), "")


def _without(settings: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in settings.items() if not _reason(key)}
