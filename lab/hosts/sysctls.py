"""Kernel settings that come with a module, and pairs of which one is always 0.

Sources: the kernel's admin-guide/sysctl/vm.rst, and the sysctl tables of the modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

MODULE_SYSCTLS: Final[Mapping[str, Mapping[str, str]]] = {
    "br_netfilter": {
        "net/bridge/bridge-nf-call-iptables": "1",
        "net/bridge/bridge-nf-call-ip6tables": "1",
    },
    "nf_conntrack": {"net/netfilter/nf_conntrack_max": "262144"},
    "rpcrdma": {"sunrpc/rdma_slot_table_entries": "128"},
}
"""Module to what is below /proc/sys while it is loaded."""
_PAIRS: Final = (
    ("vm/dirty_ratio", "vm/dirty_bytes"),
    ("vm/dirty_background_ratio", "vm/dirty_background_bytes"),
    ("vm/overcommit_ratio", "vm/overcommit_kbytes"),
)
PAIR_DEFAULTS: Final = {
    "vm/dirty_ratio": "20",
    "vm/dirty_bytes": "0",
    "vm/dirty_background_ratio": "10",
    "vm/dirty_background_bytes": "0",
    "vm/overcommit_ratio": "50",
    "vm/overcommit_kbytes": "0",
}
"""Ubuntu 22.04's values."""
PAIRED: Final = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
"""Setting to the one that becomes 0 when it is written."""
_LEAST: Final = {"vm/dirty_bytes": 8192, "vm/dirty_background_bytes": 1}
"""Two pages, and one byte: the kernel refuses less, also 0 (kernel/sysctl.c)."""
_ONLY_CHANGES: Final = ("vm/dirty_ratio", "vm/dirty_bytes")
"""Written as they are, these two leave the other alone (mm/page-writeback.c)."""


def module_sysctls(modules: Iterable[str]) -> dict[str, str]:
    """What these modules bring."""
    return {key: value for name in modules for key, value in MODULE_SYSCTLS.get(name, {}).items()}


def is_refused(key: str, text: str) -> bool:
    """Whether the kernel answers EINVAL to this number."""
    return key in _LEAST and int(text) < _LEAST[key]


def excluded(key: str, before: str, text: str) -> str | None:
    """The setting that becomes 0 when this one is written."""
    return None if key in _ONLY_CHANGES and before == text.strip() else PAIRED.get(key)
