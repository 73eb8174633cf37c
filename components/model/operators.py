"""The operators and device plugins, and the versions of a site that a maintained set fills in."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, cast

from pydantic import Field, JsonValue, StringConstraints, model_validator

from components.catalogue import upstream
from components.catalogue.version_pairs import VERSION_SETS, Component
from components.core.problem import SpecPath
from components.model import units
from components.model.texts import ChartName

if TYPE_CHECKING:
    from components.model.cluster import ClusterSpec

VERSION_PATHS: Final[Mapping[Component, SpecPath]] = {
    "kubernetes": ("kubernetes", "version"),
    "gpu-operator": ("operators", "gpu", "chart", "version"),
    "network-operator": ("operators", "network", "chart", "version"),
    "nvidia-device-plugin": ("operators", "gpu_device_plugin", "chart", "version"),
}
"""Place of a component's version in the file."""
ChartValues: TypeAlias = dict[str, JsonValue]
"""Values of a chart; only the chart knows their keys."""
ChartRelease = Annotated[str, StringConstraints(pattern=units.EXACT_RELEASE)]
"""One exact release."""
DriverTag = Annotated[str, StringConstraints(pattern=units.DRIVER_TAG)]
"""A tag of `doca-driver`, for example `doca3.4.1-26.04-1.1.0.0-1`."""


def versions_of(spec: "ClusterSpec") -> dict[Component, str]:
    """Return the versions that a site uses; empty without Kubernetes."""
    if spec.kubernetes is None:
        return {}
    found: dict[Component, str] = {"kubernetes": spec.kubernetes.version}
    operators = spec.operators
    if operators.gpu is not None:
        found["gpu-operator"] = operators.gpu.chart.version
    if operators.network is not None:
        found["network-operator"] = operators.network.chart.version
    if operators.gpu_device_plugin is not None:
        found["nvidia-device-plugin"] = operators.gpu_device_plugin.chart.version
    return found


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def with_version_set(site: object) -> object:
    """Add the versions of the site's set where it writes none; return other values unchanged.

    The set does not apply to the site's own charts or to an existing cluster: both have their own
    releases.
    """
    whole = _mapping(site)
    name = whole.get("versions")
    chosen = next((each for key, each in VERSION_SETS.items() if key == name), None)
    if chosen is None:
        return site
    changed = dict(whole)
    plane, operators = _mapping(whole.get("kubernetes")), dict(_mapping(whole.get("operators")))
    if plane.get("plane") == "k3s" and "version" not in plane:
        changed["kubernetes"] = {**plane, "version": chosen.kubernetes}
    for key, version in (
        ("gpu", chosen.gpu_operator),
        ("network", chosen.network_operator),
        ("gpu_device_plugin", chosen.device_plugin),
    ):
        operator = operators.get(key)
        chart: object = _mapping(operator).get("chart", {})
        own = _mapping(chart)
        mappings = isinstance(operator, Mapping) and isinstance(chart, Mapping)
        if mappings and own.keys().isdisjoint({"chart", "version"}):
            operators[key] = {**_mapping(operators[key]), "chart": {**own, "version": version}}
            changed["operators"] = operators
    return changed


class ChartSource(units.Frozen):
    """One Helm chart, pinned."""

    chart: ChartName
    """`oci://…`, a path of the project, or a name in `repo`."""
    repo: units.HttpsAddress | None = None
    """Address of a chart repository, over https; upstream's if `chart` is left out too."""
    version: ChartRelease
    """One exact release."""

    @model_validator(mode="before")
    @classmethod
    def _of_its_own_repository(cls, value: object) -> object:
        """Do not look for a named chart in the default repository."""
        if not isinstance(value, Mapping) or "chart" not in value:
            return cast("object", value)
        return {"repo": None} | cast("dict[str, object]", value)


class GpuOperatorChart(ChartSource):
    """The GPU operator's chart; default NVIDIA's."""

    chart: ChartName = "gpu-operator"
    """`oci://…`, a path of the project, or a name in `repo`."""
    repo: units.HttpsAddress | None = upstream.NVIDIA_CHARTS
    """Address of the chart repository, if any."""
    version: ChartRelease = upstream.GPU_OPERATOR_RELEASE
    """One exact release."""


class NetworkOperatorChart(ChartSource):
    """The network operator's chart; default NVIDIA's."""

    chart: ChartName = "network-operator"
    """`oci://…`, a path of the project, or a name in `repo`."""
    repo: units.HttpsAddress | None = upstream.NVIDIA_CHARTS
    """Address of the chart repository, if any."""
    version: ChartRelease = upstream.NETWORK_OPERATOR_RELEASE
    """One exact release."""


class GpuDevicePluginChart(ChartSource):
    """The chart of k8s-device-plugin; default NVIDIA's."""

    chart: ChartName = "nvidia-device-plugin"
    """`oci://…`, a path of the project, or a name in `repo`."""
    repo: units.HttpsAddress | None = upstream.DEVICE_PLUGIN_CHARTS
    """Address of the chart repository, if any."""
    version: ChartRelease = upstream.GPU_DEVICE_PLUGIN_RELEASE
    """One exact release."""


class ByChart(units.Frozen):
    """Software that a Helm chart installs."""

    values: ChartValues = Field(default_factory=dict)
    """Values of the chart, merged over Railyard's."""


class GpuOperator(ByChart):
    """The NVIDIA GPU operator."""

    chart: GpuOperatorChart = GpuOperatorChart()
    """The operator's chart."""
    driver: Literal["operator", "host"] = "host"
    """Who owns the GPU driver: the operator's container, or the host (DGX OS)."""
    gdrcopy: bool = False
    """Load GDRCopy's module together with the operator's driver."""


class IbKubernetes(units.Frozen):
    """ib-kubernetes: gives each pod's VF a GUID, and adds it to a partition of UFM."""

    ufm_secret: units.DnsLabel
    """A Secret in the namespace nvidia-network-operator with UFM_USERNAME, UFM_PASSWORD and
    UFM_ADDRESS; Railyard does not create it."""
    first_guid: units.PortGuid = "0200000000000000"
    """The first GUID that a pod may get."""
    last_guid: units.PortGuid = "02ffffffffffffff"
    """The last GUID of the range; UFM must not know any other GUID in it."""
    period_s: Annotated[int, Field(ge=1, le=3600)] = 5
    """Seconds between two searches for pods."""


class NetworkOperator(ByChart):
    """The NVIDIA network operator, which brings the device plugin of `pod_network.mode`."""

    chart: NetworkOperatorChart = NetworkOperatorChart()
    """The operator's chart."""
    driver: Literal["host", "operator"] = "host"
    """Who owns the RDMA driver: the host's image, or the operator's DOCA-OFED container."""
    driver_tag: DriverTag | None = None
    """Tag of that container; default the tag of the operator's release."""
    vfs: Literal["host", "operator"] = "host"
    """With `pod_network.mode: sriov`: who makes the workers' VFs and sets their MTU, the hosts' own
    steps or the SR-IOV network operator, which drains the node."""
    firmware: Literal["host", "operator"] = "host"
    """Who sets the firmware of the workers' cards (`firmware.manage`), the hosts' own steps or the
    NIC configuration operator, which drains and reboots the node."""
    ib_kubernetes: IbKubernetes | None = None
    """On InfiniBand with UFM: partitions of pods. Default none."""


class GpuDevicePlugin(ByChart):
    """NVIDIA's k8s-device-plugin on its own, for sites without the GPU operator."""

    chart: GpuDevicePluginChart = GpuDevicePluginChart()
    """The plugin's chart."""


class Operators(units.Frozen):
    """The operators of the cluster."""

    gpu: GpuOperator | None = None
    """The GPU operator; default none."""
    network: NetworkOperator | None = None
    """The network operator."""
    gpu_device_plugin: GpuDevicePlugin | None = None
    """The GPU device plugin alone; not together with the GPU operator."""
