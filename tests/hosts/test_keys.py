"""The table of keys has every key that a plan can name once, and no row that nothing names."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.checks.site import check_loaded, load_checked_site
from components.core.difference import Effect
from components.core.problem import Json
from components.hosts.host_plan import plan_hosts
from components.hosts.keys.ask import (
    HostKey,
    all_keys,
    effect_of,
    expression,
    find_row,
    globs,
    keys_text,
)
from components.hosts.scripts import host_tool
from components.model.cards import HostQos, Sriov
from components.model.cluster import ClusterSpec
from components.model.kernel import KernelSettings
from components.reading.load import load_config_value
from components.reading.yaml_text import parse_yaml
from tests.golden.site import EXAMPLES, load_example
from tests.hosts.folder_host import folder_host
from tests.hosts.host_text import library_text
from tests.over_ssh.test_host_kernel import with_kernel
from tests.over_ssh.test_host_kernel_law import WISHES
from tests.over_ssh.test_vf_property import CABLES, WANTED
from tests.over_ssh.test_vfs import BUFFERS, one_card_spec
from tests.over_ssh.test_vfs import EVERYTHING as EVERYTHING_OF_VFS

SCRIPTS = Path(__file__).parents[2] / "components/hosts/scripts"
SHELLCHECK = Path(sys.executable).with_name("shellcheck")
SITES = sorted(EXAMPLES.glob("*/[a-z]*.yaml"))


def settings_of(spec: ClusterSpec) -> dict[str, str]:
    """All that the plans of a site ask of hosts, with what their proofs and looks ask."""
    plans = plan_hosts(spec)
    proofs = [plan.watched_verify for plan in plans]
    states = [
        *(plan.desired for plan in plans),
        *(plan.watched.beside for plan in plans),
        *(each.desired for each in proofs if each),
    ]
    return {key: value for state in states for key, value in state.values.items()}


KEYS = all_keys()
EXPRESSIONS = [re.compile(expression(row)) for row in KEYS]
GLOBS = [[re.compile(translate(glob)) for glob in globs(row)] for row in KEYS]
"""As `fnmatchcase` compiles them; it keeps 256, and there are more."""


def rows_of(key: str) -> list[HostKey]:
    """By their patterns, each on its own: `find_row` would stop at the first."""
    return [row for row, said in zip(KEYS, EXPRESSIONS, strict=True) if said.fullmatch(key)]


def assert_once(keys: Mapping[str, str]) -> None:
    assert keys
    for key in keys:
        (row,) = rows_of(key)
        assert find_row(key) is row
        like = [any(glob.match(key) for glob in each) for each in GLOBS]
        assert [other for other, found in zip(KEYS, like, strict=True) if found] == [row]


@pytest.mark.parametrize("site", SITES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_key_of_an_example_is_in_the_table_once(site: Path) -> None:
    spec = load_checked_site(site).spec
    assert spec is not None
    keys = settings_of(spec)
    assert bool(keys) is bool(spec.reached)
    if keys:
        assert_once(keys)


@settings(max_examples=60, deadline=None)
@given(wish=WISHES)
def test_every_key_of_a_kernel_is_in_the_table_once(wish: KernelSettings) -> None:
    assert_once(settings_of(with_kernel(load_example("dgx-roce"), wish)))


@settings(max_examples=60, deadline=None)
@given(wanted=WANTED, qos=CABLES, vfs=st.integers(0, 4))
def test_every_key_of_a_card_is_in_the_table_once(wanted: Sriov, qos: HostQos, vfs: int) -> None:
    assert_once(settings_of(one_card_spec(load_example("dgx-roce"), wanted, qos, {"vfs": vfs})))


SUM = {"sha256": "1" * 64}
KEY: dict[str, Json] = {"url": "/srv/doca", "key": "/srv/key.asc", "key_sha256": "ab" * 32}
DOCA: dict[str, Json] = {"kind": "doca_ofed", "version": "3.2.0", "rebuild": True}
EVERYTHING: Mapping[str, Json] = {
    "driver": {**DOCA, "source": "/opt/a.deb", **SUM},
    "gpu_direct": "dma_buf",
    "gpu_driver_version": "580.126.20",
    "firmware": {
        "manage": True,
        "relaxed_ordering": True,
        "min_versions": [{"model": "ConnectX-5", "version": "16.35.4030"}],
    },
    "kernel": {
        "sysctls": {"net.core.rmem_max": 4096, "net.bridge.bridge-nf-call-iptables": 1},
        "hugepages_2mib": 8,
        "hugepages_1gib_per_node": [1, 1],
        "iommu": "pt",
        "rdma_netns": "shared",
    },
}
"""What `host_defaults` of a file may ask of a host, as far as it can be asked together."""
OTHERS: Mapping[str, Json] = {
    **EVERYTHING,
    "driver": {**DOCA, "version": "OFED-internal-25.10-1.7.1:", "repository": KEY},
    "kernel": {"hugepages_2mib_per_node": [4, 4], "hugepages_1gib": 2},
}

OWN_DRIVER: Mapping[str, Json] = {
    "driver": {"kind": "inbox"},
    "gpu_direct": "dma_buf",
    "firmware": {"manage": True},
    "toolkit": {"kind": "host", "repository": KEY, "version": "1.17.8-1"},
    "rail_names": True,
}
"""The kernel's own driver, whose firmware says what has ECN, and a toolkit to install."""


def written(name: str, defaults: Mapping[str, Json]) -> dict[str, Json]:
    """An example's file that asks for these defaults."""
    path = EXAMPLES / name / "site.yaml"
    value = copy.deepcopy(cast("dict[str, Json]", parse_yaml(path.read_text(), path.name).value))
    cast("dict[str, Json]", value["host_defaults"]).update(defaults)
    return value


def read(value: dict[str, Json]) -> ClusterSpec:
    loaded = check_loaded(load_config_value(value, None), "site.yaml")
    assert loaded.spec is not None, [problem.what for problem in loaded.problems]
    return loaded.spec


def sites() -> Iterator[ClusterSpec]:
    """Examples, and files that ask for everything else."""
    for site in SITES:
        spec = load_checked_site(site).spec
        assert spec is not None
        yield spec
    dgx = load_example("dgx-roce")
    yield with_kernel(dgx, KernelSettings())
    spread = dgx.rdma.model_copy(update={"adaptive_routing": True})
    yield dgx.model_copy(update={"rdma": spread})
    switched = EVERYTHING_OF_VFS.model_copy(update={"eswitch": "legacy"})
    yield one_card_spec(dgx, switched, BUFFERS, {"serial": "MT1"})
    for defaults in (EVERYTHING, OTHERS):
        yield read(written("dgx-roce", defaults))
    value = written("dgx-roce", OWN_DRIVER)
    for host in cast("list[dict[str, Json]]", value["hosts"]):
        for nic in cast("list[dict[str, Json]]", host.get("nics", [])):
            nic |= {
                "rdma": f"roce_{nic['netdev']}",
                "pci": str(nic["pci"]).replace("84:00.0", "84:00.1"),
            }
    yield read(value)
    value = written("quantum-ib", {"firmware": {"manage": True}})
    hca: dict[str, Json] = {"resource": "hca", "hca_max": 63}
    hca |= {"vendors": ["15b3"], "link_types": ["infiniband"]}
    shared: dict[str, Json] = {"mode": "rdma_shared", "interface": "none", "shared_devices": [hca]}
    value["pod_network"] = {"resource_prefix": "nvidia.com", **shared}
    for host in cast("list[dict[str, Json]]", value["hosts"]):
        if "hcas" in host:
            host["hca_sriov"] = [{"pci": "0000:18:00.1", "vfs": 1}]
    yield read(value)


@cache
def named() -> Mapping[str, str]:
    """Every setting that a plan of these sites names."""
    return {key: value for spec in sites() for key, value in settings_of(spec).items()}


def answered(root: Path) -> set[str]:
    """What a host answers beside the keys that it was asked for: of observe, and left by undo."""
    host = folder_host(root)
    cards = ("0000:05:00.0", "0000:18:00.1")
    for number, card in enumerate(cards):
        host.card(card, f"enp{number}s0", vfs=0)
    host.write("proc/cmdline", "quiet\n")
    host.write("proc/cpuinfo", "vendor_id\t: GenuineIntel\n")
    waiting = {key: value for key, value in named().items() if find_row(key).loads_at_start}
    asked = [f"{key}={value}" for key, value in waiting.items() if key.split(".")[0] == "nic"]
    found = set(host.observe(*asked, *(f"nic.{card}.vfs=0" for card in cards)))
    for name in ("boot_name", "boot_rdma"):
        key = f"nic.{cards[0]}.{name}"
        now = host.observe(f"{key}_current=x")[f"{key}_current"]
        host.run("converge", f"{key}={now}")
        found |= set(re.findall(r'"(nic[a-z0-9_.:]+)"', host.run("undo", f"{key}={now}").stdout))
    # In this order: the second one's words on the command line are the first one's already.
    for key in ("kernel.cmdline.iommu", "kernel.rdma_netns"):
        host.run("converge", f"{key}={waiting[key]}")  # asks for words on the command line
        host.write("proc/cmdline", "quiet intel_iommu=on iommu=pt\n")
        host.report("converge", f"{key}={waiting[key]}")
        undone = host.run("undo", f"{key}={waiting[key]}").stdout
        found |= set(re.findall(r'"(kernel[a-z_.]+)"', undone))
    return found


def test_every_row_is_named_by_a_plan_or_answered_by_a_host(tmp_path: Path) -> None:
    keys = {*named(), *answered(tmp_path)}
    unnamed = [row.pattern for row in KEYS if not any(row in rows_of(key) for key in keys)]
    assert unnamed == [], "ask for each in EVERYTHING or OTHERS above, or in a file of examples/"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("nic.0000:05:00.0.0.mtu_bytes", "no PCI address"),
        ("vf.0000:05:00.0.255.vlan", "no number of a VF"),
        ("vf.0000:05:00.0.vlan", "no number of a VF"),
        ("nic.0000:05:00.0.dscp64_priority", "no DSCP"),
        ("nic.0000:05:00.0.ecn_priority_8", "no priority"),
        ("kernel.hugepages.2mib.node1024", "no NUMA node"),
        ("route.32001.rule", "no routing table"),
        ("user.-x.uid", "no name"),
        ("kernel.sysctl.swappiness", "no dotted name"),
        ("hostname.x", "no key"),
        ("nic.0000:05:00.0.colour", "no key"),
    ],
)
def test_a_host_refuses_what_the_table_has_not(key: str, reason: str, tmp_path: Path) -> None:
    done = folder_host(tmp_path).run("converge", f"{key}=1")
    assert done.returncode == 1, reason
    assert f"stdin: '{key}' is no setting of a host" in done.stderr


def test_each_row_names_a_script() -> None:
    here = {"system": "writing", "card": "writing"}
    for row in KEYS:
        assert (SCRIPTS / f"{here.get(row.part, row.part)}.sh").exists()


def test_every_condition_is_a_function_of_a_script() -> None:
    """The host would find none only when it needs it."""
    text = library_text()
    for row in KEYS:
        for function in (row.nothing_where, row.gone_where, row.interrupts):
            assert function in {None, "always"} or f"\n{function}() {{" in text


def test_shellcheck_has_nothing_to_say_of_the_table() -> None:
    done = subprocess.run(
        [str(SHELLCHECK), "--shell=sh", "--exclude=SC2034", "-"],  # the scripts use the variables
        input=keys_text(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_tool_has_the_table_once() -> None:
    assert host_tool().text.count(keys_text()) == 1


def orders(root: Path, question: str, *keys: str) -> list[str]:
    """The keys in the order of work, as a host sorts them."""
    script = f"printf '%s\\n' {' '.join(f'{key}=x' for key in keys)} >$work/asked\n{question}\n"
    return [line.removesuffix("=x") for line in folder_host(root).sh(script).stdout.splitlines()]


def test_settings_are_applied_in_order_and_undone_in_reverse(tmp_path: Path) -> None:
    card, vf = "nic.0000:05:00.0", "vf.0000:05:00.0.0"
    forth = [
        "hostname", "driver.gpu_host", "driver.kind", "unit.docker.limit_memlock",
        "docker.engine", f"{card}.model", f"{card}.fw_num_of_vfs", f"{card}.eswitch",
        f"{card}.dcbx", f"{card}.global_pause", f"{card}.link", f"{card}.vfs", f"{vf}.guid",
        f"{card}.vf_mtu_bytes", f"{card}.trust", f"{card}.pfc",
        f"{card}.buffers", f"{card}.address", "route.7400.table", "route.7400.rule",
        "unit.k3s.limit_memlock", "unit.railyard-nics.files", "kernel.hugepages.2mib",
    ]  # fmt: skip
    assert orders(tmp_path / "a", "ranked $work/asked", *reversed(forth)) == forth
    back = [
        "route.7400.rule", "route.7400.table", f"{card}.pfc", f"{card}.trust", f"{card}.eswitch",
        f"{card}.vfs", f"{card}.link", f"{card}.fw_num_of_vfs", f"{vf}.vlan", f"{card}.buffers",
        "driver.kind",
    ]  # fmt: skip
    assert orders(tmp_path / "b", "ranked $work/asked -r", *reversed(back)) == back


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("net.bridge.bridge-nf-call-iptables", "br_netfilter"),
        ("net.netfilter.nf_conntrack_max", "nf_conntrack"),
        ("net.nf_conntrack_max", "nf_conntrack"),
        ("sunrpc.svc_rdma.max_requests", "rpcrdma"),
        ("sunrpc.tcp_slot_table_entries", "sunrpc"),
        ("net.core.rmem_max", ""),
    ],
)
def test_a_host_knows_the_module_of_a_setting(name: str, module: str, tmp_path: Path) -> None:
    done = folder_host(tmp_path).sh(f"brings=''; find_module kernel.sysctl.{name}; echo $brings")
    assert done.stdout.strip() == module


def test_the_key_of_a_driver_that_is_not_ours_loads_nothing() -> None:
    assert find_row("driver.loaded").interrupts == "always"
    assert find_row("driver.gpu_host").interrupts != "always"
    assert find_row("driver.nothing").interrupts != "always"


def test_every_row_says_what_a_change_does() -> None:
    """What takes a link or a machine away waits for the drain or the boot, and nothing else."""
    for row in KEYS:
        waits = row.interrupts is not None or row.loads_at_start
        assert (effect_of(row) >= Effect.LINK) is (waits and row.undo != "looked"), row.pattern
