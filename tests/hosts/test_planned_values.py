"""Whatever a file says of its hosts, what is planned of it is what a host takes."""

from __future__ import annotations

import copy
import subprocess
import tempfile
from pathlib import Path
from typing import Final, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.checks.site import check_loaded
from components.core.key_values import parse_state
from components.core.problem import Json
from components.hosts.host_plan import plan_hosts
from components.reading.load import load_config_value
from components.reading.yaml_text import parse_yaml
from tests.hosts.host_text import library_text

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
_TAKEN: Final[set[str]] = set()
"""Lines that the script took already: asking is slow."""

_WORDS = st.sampled_from(["0", "off", "true", "a b", "3.2.0", "R580", "580.126.20", "\u00e9", ""])
_ODD: st.SearchStrategy[object] = st.one_of(
    st.integers(0, 16), st.integers(-1, 10**7), st.none(), st.booleans(), _WORDS
)
_SUM: Final = {"sha256": "1" * 64}
_DRIVER: st.SearchStrategy[object] = st.sampled_from([
    {"kind": "doca_ofed", "version": "3.2.0", "source": "/opt/a.deb", **_SUM},
    {"kind": "doca_ofed", "version": "OFED-internal-25.10-1.7.1:", "source": "/opt/a.rpm", **_SUM},
    {"kind": "mlnx_ofed", "version": "5.8-2.0.3.0", "source": "https://h.example/a.tgz", **_SUM},
    {"kind": "mlnx_ofed", "version": "latest", "source": "a.tgz", **_SUM},
])  # fmt: skip
_SHARED: dict[str, st.SearchStrategy[object]] = {
    "driver": _DRIVER,
    "firmware": st.fixed_dictionaries(
        {"manage": st.booleans()}, optional={"relaxed_ordering": st.booleans(), "num_of_vfs": _ODD}
    ),
    "gpu_driver_version": _WORDS,
    "gpu_direct": st.sampled_from(["peermem", "dma_buf", "none", "nv_peer_mem"]),
    "qos": st.fixed_dictionaries({"cable_length_m": _ODD}),
    "kernel": st.fixed_dictionaries(
        {}, optional={"hugepages_2mib": _ODD, "sysctls": st.dictionaries(st.just("a.b"), _ODD)}
    ),
}
_PCI = st.sampled_from(["0000:05:00.0", "0000:05:00.1", "0000:05:00.2", "0000:18:00.0", "5:0.0"])
_NIC: dict[str, st.SearchStrategy[object]] = {
    "pci": _PCI,
    "serial": _WORDS,
    "model": st.sampled_from(["ConnectX-5", "ConnectX-7", "BlueField-3"]),
    "address": st.sampled_from(["10.10.111.5", "10.10.111.5/24", "x"]),
    "sriov": st.fixed_dictionaries({}, optional={"eswitch": _ODD, "max_rate_mbit_s": _ODD}),
    **dict.fromkeys(("vfs", "mtu_bytes", "netdev", "link_width"), _ODD),
}
_HCA_PORT: st.SearchStrategy[object] = st.fixed_dictionaries({"pci": _PCI}, optional={"vfs": _ODD})


def _site(name: str) -> dict[str, Json]:
    path = EXAMPLES / f"{name}.yaml"
    return cast("dict[str, Json]", parse_yaml(path.read_text("utf-8"), path.name).value)


_SITES: Final = [
    _site(name) for name in ("dgx-roce/host-settings", "quantum-ib/site", "shared-rdma/site")
]


def _refused(lines: set[str]) -> str:
    """The lines that the script of a host does not know; with them nothing would be done there."""
    script = f"""{library_text()}
while IFS= read -r line; do
  case $line in
    stack=*) name "${{line#*=}}" ;;
    driver_*) driver_parameter "$line" ;;
    *) valid_key "${{line%%=*}}" && valid_value "${{line%%=*}}" "${{line#*=}}" ;;
  esac || printf '%s\\n' "$line"
done"""
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:  # one argument ends at 128 KiB
        file.write(script)
        file.flush()
        done = subprocess.run(
            ["/bin/sh", file.name],
            input="".join(f"{line}\n" for line in sorted(lines)),
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    return done.stdout + done.stderr


_CHANGES: Final = {
    **{("host_defaults", key): values for key, values in _SHARED.items()},
    **{("nics", key): values for key, values in _NIC.items()},
    ("hca_sriov", ""): st.lists(_HCA_PORT, max_size=2),
}
_ONE: Final = st.sampled_from(sorted(_CHANGES)).flatmap(
    lambda place: st.tuples(st.just(place), _CHANGES[place])
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(_SITES), st.lists(_ONE, min_size=1, max_size=3))
def test_hosts_take_what_is_planned_of_any_file(
    site: dict[str, Json], changes: list[tuple[tuple[str, str], object]]
) -> None:
    value = copy.deepcopy(site)
    worker = cast("list[dict[str, object]]", value["hosts"])[1]
    for (where, key), new in changes:
        if where == "host_defaults":
            cast("dict[str, object]", value[where])[key] = new
        elif where == "hca_sriov":
            worker[where] = new
        elif nics := cast("list[dict[str, object]]", worker.get("nics")):
            nics[0][key] = new
    spec = check_loaded(load_config_value(value, None), "site.yaml").spec
    if spec is None:
        return
    planned = {
        line
        for plan in plan_hosts(spec)
        for line in parse_state(plan.converge.desired).render().splitlines()
    }
    assert not _refused(planned - _TAKEN)
    _TAKEN.update(planned)
