"""Parts that Railyard refuses by name: those of other makers, and switches that it does not plan.

It sets up cards by mlx5's tools and files, and GPUs by NVIDIA's operators. The names are written
after the makers' product pages (lab/sources.md#parts-of-other-makers).
"""

from __future__ import annotations

import re
from typing import Final

_NICS: Final = (
    (
        "Broadcom",
        re.compile(r"broadcom|netxtreme|thor ?[0-9]?|bcm ?5[0-9]+|[pn][0-9]{4}g\w*", re.IGNORECASE),
    ),
    (
        "AMD Pensando",
        re.compile(r"amd|pensando|pollara|vulcano|salina|elba|dsc[0-9-].*", re.IGNORECASE),
    ),
    ("Intel", re.compile(r"intel|e[128][0-9]{2,3}(-\w+)?|xx?v?7[0-9]{2}|ipu|irdma", re.IGNORECASE)),
    ("Amazon", re.compile(r"efa|ena|amazon", re.IGNORECASE)),
    ("Cornelis", re.compile(r"cornelis|omni-?path|cn5000", re.IGNORECASE)),
    ("Marvell", re.compile(r"marvell|fastlinq|qlogic|ql4[0-9]+", re.IGNORECASE)),
    ("Chelsio", re.compile(r"chelsio|t6[0-9]+", re.IGNORECASE)),
)
_GPUS: Final = (
    ("AMD", re.compile(r"amd|instinct|mi[0-9]{2,3}[a-z]*|radeon|rocm", re.IGNORECASE)),
    ("Intel", re.compile(r"intel|gaudi ?[0-9]?|hl-?[0-9]+|ponte|max ?1[0-9]{3}", re.IGNORECASE)),
    ("Google", re.compile(r"tpu", re.IGNORECASE)),
    ("Amazon", re.compile(r"trainium ?[0-9]?|trn[0-9]|inferentia ?[0-9]?", re.IGNORECASE)),
)
_SOFTWARE: Final = (
    ("AMD", re.compile(r"(^|[/.@_-])(rocm|amd|amdgpu)([/.@:_-]|$)", re.IGNORECASE)),
    ("Intel", re.compile(r"(^|[/.@_-])(habana|gaudi|habanalabs)([/.@:_-]|$)", re.IGNORECASE)),
)
_PREFIXES: Final = {
    "amd.com": "AMD",
    "habana.ai": "Intel",
    "gpu.intel.com": "Intel",
    "broadcom.com": "Broadcom",
    "aws.amazon.com": "Amazon",
}
"""Prefixes of extended resources. `intel.com` is that of the SR-IOV device plugin itself."""
_Table = tuple[tuple[str, re.Pattern[str]], ...]
_WORD: Final = re.compile(r"[\s_/(),]+")


def nic_vendor(model: str) -> str | None:
    """The maker of a card that is not NVIDIA's, by its name; None where no other is known."""
    return _maker(model, _NICS)


def gpu_vendor(model: str) -> str | None:
    """The maker of a GPU that is not NVIDIA's, by its name."""
    return _maker(model, _GPUS)


def software_vendor(address: str) -> str | None:
    """The maker of whose GPUs a chart or image is, by its address."""
    return next((vendor for vendor, pattern in _SOFTWARE if pattern.search(address)), None)


def prefix_vendor(prefix: str) -> str | None:
    """The maker of whose plugin a resource prefix is."""
    return _PREFIXES.get(prefix)


def _maker(name: str, table: _Table) -> str | None:
    words = [*(word for word in _WORD.split(name) if word), name]
    for vendor, pattern in table:
        if any(pattern.fullmatch(word) for word in words):
            return vendor
    return None


_UNMANAGED: Final = "has no system to log in to: its subnet manager runs elsewhere"
_NVOS: Final = (
    "runs NVOS, which has no partitions to set, and on Quantum-X800 no subnet manager either: its "
    "`nv set ib sm` is refused there"
)
_UFM: Final = (
    "write it in infiniband.switches, which are not logged in to, set infiniband.subnet_manager to "
    "external, and say in infiniband.ufm how UFM is reached, which then gets the partitions."
)
_SAND: Final = (
    "has virtual output queues, which EOS sets by `tx-queue`; Railyard sets the `uc-tx-queue` of "
    "Trident and Tomahawk"
)
UNPLANNED: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = (
    (
        re.compile(r"QM(87|97)90"),
        _UNMANAGED,
        _UFM,
    ),
    (
        re.compile(r"Q3[24]\d\d(-\w+)?"),
        _NVOS,
        _UFM,
    ),
    (
        re.compile(r"(DCS-)?7(28\d|5\d\d|8\d\d)R\w*(-.*)?"),
        _SAND,
        "leave the switch out of the file and configure it yourself, or use a 7050X or 7060X.",
    ),
)
"""Pattern of names, why it is not planned, and what to do; sources.md#switch-models."""


def why_unplanned(name: str) -> tuple[str, str] | None:
    """Why a model is not planned, and what to do; None where nothing of the kind is known."""
    for pattern, why, fix in UNPLANNED:
        if pattern.fullmatch(name):
            return why, fix
    return None
