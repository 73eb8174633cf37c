"""All rules, in the order of the reference. A new rule is one function and one line here."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Final

from components.checks import (
    access,
    addresses,
    cabling,
    capability,
    machines,
    mtu,
    naming,
    software,
    stack_keys,
    traffic,
    work,
)
from components.checks.rule import Rule

RULES: Final = tuple(
    Rule(check)
    for check in (
        mtu.check_mtu_chain,
        mtu.check_rdma_path_mtu,
        mtu.check_rail_mtu,
        traffic.check_one_traffic_class,
        traffic.check_dscp_priority,
        traffic.check_switch_class,
        traffic.check_cnp_priority,
        traffic.check_cnp_separate,
        traffic.check_ecn_thresholds,
        traffic.check_pfc_priority,
        cabling.check_port_target,
        cabling.check_nic_rail,
        cabling.check_nic_cabling,
        cabling.check_vlan_rail,
        cabling.check_port_mode,
        cabling.check_lacp_rail,
        cabling.check_rail_switch,
        cabling.check_numa_leaf,
        capability.check_switch_model,
        capability.check_port_capability,
        naming.check_duplicate_name,
        naming.check_reserved_name,
        naming.check_resource_name,
        naming.check_resource_prefix,
        naming.check_network_name,
        naming.check_duplicate_vlan,
        naming.check_unused_rail,
        addresses.check_valid_address,
        addresses.check_node_address,
        addresses.check_duplicate_address,
        addresses.check_subnet_overlap,
        addresses.check_subnet_size,
        addresses.check_cluster_networks,
        addresses.check_dhcp_server,
        access.check_host_key,
        access.check_credentials,
        machines.check_vf_limit,
        machines.check_vf_count,
        machines.check_duplicate_nic,
        machines.check_netdev_name,
        machines.check_rail_symmetry,
        machines.check_rail_speed,
        machines.check_gpu_symmetry,
        machines.check_driver_package,
        machines.check_user_account,
        machines.check_gpu_direct,
        software.check_control_plane,
        software.check_worker_count,
        software.check_etcd_members,
        software.check_k3s_version,
        software.check_version_pair,
        software.check_onyx_release,
        software.check_pinned_source,
        software.check_chart_version,
        software.check_registry_mirror,
        work.check_max_unavailable,
        work.check_gdr_level,
        work.check_message_size,
        work.check_mpi_operator,
    )
)
"""The rules on a spec."""


@dataclass(frozen=True, slots=True)
class FileRule:
    """What is demanded of the file itself, before there is a spec."""

    name: str
    text: str


FILE_RULES: Final = (
    FileRule("yaml-syntax", "The file is one YAML document."),
    FileRule("duplicate-key", "No key is written twice in one mapping; one of them would be lost."),
    FileRule("missing-key", "A key without a default is there."),
    FileRule("unknown-key", "Every key is known; a misspelt key would silently do nothing."),
    FileRule(
        "wrong-type",
        "A value is of the expected kind. A number in quotes is a text here, and `yes` is no "
        "truth value.",
    ),
    FileRule("unknown-choice", "Where there are a few choices, the value is one of them."),
    FileRule("out-of-range", "A number is within the limits of what it stands for."),
    FileRule("malformed", "A name, address, checksum or port has the form of one."),
    FileRule(
        "secret-value",
        inspect.getdoc(access.check_secret_value) or "",
    ),
    FileRule("stack-key", inspect.getdoc(stack_keys.check_stack_key) or ""),
)
"""The rules on the text, and on the stack file around the site."""
