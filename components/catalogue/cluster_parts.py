"""The parts that a cluster may have already, and where kubelet looks for CNI programs.

Names of images are those of the projects' own releases and of Rancher's hardened builds
(lab/sources.md#parts-of-a-cluster).

Sources: lab/sources.md#cni-folders.
"""

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, get_args

from pydantic import AfterValidator

from components.catalogue import upstream
from components.core.templates import typed_table

FIRST_K3S: Final = {(1, 28): 15, (1, 29): 10, (1, 30): 6, (1, 31): 2}
"""Minor of Kubernetes to its first patch whose K3s has the folder above; every later minor has it.
docs.k3s.io, "Multus and IPAM plugins". Older K3s has its programs in `data/current/bin`, a link
that every upgrade moves: programs that a pod installed there are lost with the next one."""
_SUFFIX: Final = re.compile(r"\+(k3s|rke2|k0s)")
Part = Literal[
    "multus",
    "attachments",
    "whereabouts",
    "nv_ipam",
    "sriov_cni",
    "ib_sriov_cni",
    "ipoib_cni",
    "rdma_cni",
    "cni_plugins",
    "sriov_device_plugin",
    "shared_device_plugin",
    "gpu_device_plugin",
    "gpu_operator",
    "network_operator",
    "mpi_operator",
    "trainer",
]
PARTS: Final[tuple[Part, ...]] = get_args(Part)


class CniPaths(NamedTuple):
    """Two folders of every node."""

    net_d: str = "/etc/cni/net.d"
    """CNI configurations."""
    bin: str = "/opt/cni/bin"
    """CNI programs."""

    @property
    def whereabouts_config(self) -> str:
        """The configuration that whereabouts writes for its own program."""
        return f"{self.net_d}/whereabouts.d/whereabouts.conf"


UPSTREAM: Final = CniPaths()
"""The defaults of containerd and CRI-O, which most distributions keep."""
DISTRIBUTIONS: Final = typed_table(dict[str, CniPaths], __file__, "distributions")


def distribution_of(version: str) -> str | None:
    """The distribution that a version tells by its suffix: `v1.36.3+k3s1`; None: it tells none."""
    found = _SUFFIX.search(version)
    return found[1] if found else None


if TYPE_CHECKING:
    Distribution = str
else:
    Distribution = Literal[tuple(DISTRIBUTIONS)]
"""The type of `kubernetes.distribution`."""


class Definition(NamedTuple):
    """The definition of a part's own objects."""

    name: str
    version: str
    """The version that our objects, or those of jobs, are written in."""


class Status(NamedTuple):
    """Objects in whose status an operator writes that its work is done."""

    path: str
    kind: str


class ClusterPart(NamedTuple):
    """One part."""

    title: str
    image: Annotated[str, AfterValidator(lambda text: text.format_map(vars(upstream)))] = ""
    """The image, in DaemonSets and Deployments, of the release that Railyard brings, or was written
    with; without a tag if that is not known."""
    definitions: tuple[Definition, ...] = ()
    status: Status | None = None
    hardened: str = ""
    """Last name of Rancher's build of it."""
    publishes: bool = False
    """It publishes devices as resources of nodes."""
    shared: bool = False
    """Our copy does not disturb another one in the cluster."""

    @property
    def images(self) -> tuple[str, ...]:
        """Last names of the images that it runs from."""
        return tuple(filter(None, (name_in(self.image), self.hardened)))

    @property
    def known(self) -> str:
        """That release; empty if it is not known."""
        return version_in(self.image)


def name_in(image: str) -> str:
    """The last name of an image: `multus-cni` of `ghcr.io/k8snetworkplumbingwg/multus-cni:v4`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def version_in(image: str) -> str:
    """The tag of an image; empty if a digest alone names it."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


TABLE: Final = typed_table(dict[Part, ClusterPart], __file__, "parts")


def part_of_image(image: str) -> Part | None:
    """The part to which an image belongs, by its last name; None for every other image.

    `ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0-thick` belongs to `multus`.
    """
    return next((part for part, row in TABLE.items() if name_in(image) in row.images), None)
