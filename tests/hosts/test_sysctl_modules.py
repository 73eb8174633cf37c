"""Kernel settings that come with a module: what is planned, and what an undo leaves loaded."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from components.model.kernel import KernelSettings
from tests.golden.site import changed_spec, load_example
from tests.hosts.folder_host import FolderHost, folder_host
from tests.hosts.host_text import desired_state

MODPROBE = """
case $1 in -r) rm -rf $F/sys/module/$2 ;; *) mkdir -p $F/sys/module/$1 ;; esac"""
LOADED = "module.br_netfilter=loaded"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("net.bridge.bridge-nf-call-iptables", "br_netfilter"),
        ("net.netfilter.nf_conntrack_max", "nf_conntrack"),
        ("net.nf_conntrack_max", "nf_conntrack"),
        ("net.ipv4.vs.conntrack", "ip_vs"),
        ("sunrpc.tcp_slot_table_entries", "sunrpc"),
        ("sunrpc.rdma_slot_table_entries", "rpcrdma"),
        ("sunrpc.svc_rdma.max_requests", "rpcrdma"),
        ("net.netfilter.nf_log_all_netns", None),
        ("net.core.rmem_max", None),
    ],
)
def test_the_module_of_a_setting_is_loaded_at_each_boot(name: str, module: str | None) -> None:
    spec = load_example("dgx-roce")
    kernel = KernelSettings.model_validate({"sysctls": {name: 1}})
    defaults = spec.host_defaults.model_copy(update={"kernel": kernel})
    asked = changed_spec(spec, host_defaults=defaults)
    for host, as_before in zip(asked.hosts, spec.hosts, strict=True):
        values = desired_state(asked, host).values
        more = values.keys() - desired_state(spec, as_before).values.keys()
        loaded = {key: values[key] for key in more if key.startswith("module.")}
        assert loaded == ({f"module.{module}": "loaded"} if module else {})


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    host = folder_host(tmp_path)
    host.tool("modprobe", MODPROBE)
    host.report("converge", LOADED)
    return host


def is_loaded(host: FolderHost) -> bool:
    return (host.root / "sys/module/br_netfilter").is_dir()


def test_a_module_that_only_we_needed_goes(host: FolderHost) -> None:
    assert is_loaded(host)
    assert host.report("undo")["left"] == []
    assert not is_loaded(host)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("lib/modules/{kernel}/modules.builtin", "kernel/drivers/infiniband/core/rdma_cm.ko\n"),
        ("sys/class/misc/rdma_cm/dev", "10:122\n"),
    ],
)
def test_a_module_in_the_kernel_itself_is_loaded(tmp_path: Path, path: str, text: str) -> None:
    """As on the machine with two H200: CONFIG_INFINIBAND_ADDR_TRANS=y, no /sys/module/rdma_cm."""
    host = folder_host(tmp_path)
    host.tool("modprobe", "echo modprobe was called >&2; exit 1")
    host.write(path.format(kernel=platform.release()), text)
    assert host.report("converge", "module.rdma_cm=loaded")["changed"] == []
    assert host.report("undo")["left"] == []


def test_the_filter_of_bridges_stays_while_there_is_one(host: FolderHost) -> None:
    (host.root / "sys/class/net/cni0/bridge").mkdir(parents=True)
    assert "module.br_netfilter" in str(host.report("converge")["notes"])
    assert is_loaded(host)
    assert host.report("undo")["left"] == ["module.br_netfilter"]
    assert is_loaded(host)
