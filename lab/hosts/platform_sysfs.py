"""What a lab host's /sys says beside its devices: huge pages and CPU governors."""

from __future__ import annotations

from lab.hosts.model import HostModel
from lab.hosts.nic import parse_kernel_uint
from lab.hosts.platform import GOVERNORS, NODES, PAGE_KIB
from lab.hosts.sys_table import SysFile, Table, constant


def add_platform(table: Table, model: HostModel) -> None:
    """Huge pages in all and on each node, and the governor of each processor."""
    platform = model.platform
    if platform.cgroup == "v2":
        controllers = "cpuset cpu io memory hugetlb pids rdma misc"
        table["/fs/cgroup/cgroup.controllers"] = constant(controllers)
    else:
        for controller in ("cpu,cpuacct", "memory", "pids", "systemd"):
            table[f"/fs/cgroup/{controller}/cgroup.procs"] = constant(1)
    if platform.selinux:
        table["/fs/selinux/enforce"] = constant(1)
    for size in PAGE_KIB:
        table[f"/kernel/mm/hugepages/hugepages-{size}/nr_hugepages"] = SysFile(
            lambda size=size: f"{platform.pages(size)}\n",
            lambda text, size=size: _set_pages(model, size, None, text),
        )
        for node in range(NODES):
            base = f"/devices/system/node/node{node}/hugepages/hugepages-{size}"
            table[f"{base}/nr_hugepages"] = SysFile(
                lambda size=size, node=node: f"{platform.hugepages[size, node]}\n",
                lambda text, size=size, node=node: _set_pages(model, size, node, text),
            )
    for cpu in range(len(platform.governors)):
        base = f"/devices/system/cpu/cpufreq/policy{cpu}"
        table[f"{base}/scaling_available_governors"] = constant(" ".join(GOVERNORS))
        table[f"{base}/scaling_governor"] = SysFile(
            lambda cpu=cpu: f"{platform.governors[cpu]}\n",
            lambda text, cpu=cpu: platform.set_governor(cpu, text),
        )


def _set_pages(model: HostModel, size: str, node: int | None, text: str) -> None:
    wanted = parse_kernel_uint(text)
    if node is None:
        model.platform.set_total(size, wanted)
    else:
        model.platform.set_pages(size, node, wanted)
    model.sysctls["vm/nr_hugepages"] = str(model.platform.pages("2048kB"))
