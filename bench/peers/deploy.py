"""The settings of one GPU host as a pyinfra user writes them.

Operations where pyinfra has one; else a command that says what it finds, and one that runs where
that is not as wanted. Run twice, the second changes nothing. pyinfra is in an environment of the
benchmark's own, so pyright does not look at this file.
"""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

from pyinfra import config, host
from pyinfra.facts.server import Command
from pyinfra.operations import files, server, systemd

config.SUDO = True

want = json.loads(Path(os.environ["BENCH_DESIRED"]).read_text())
cards = want["cards"]

server.hostname(name="Host name", hostname=host.name)
files.block(
    name="Names of all hosts",
    path="/etc/hosts",
    marker=f"# railyard {want['stack']}: {{mark}}",
    begin="begin, do not edit",
    end="end",
    content="\n".join(want["names"][host.name]),
)
server.user(name="User of the jobs", user=want["user"]["name"], uid=want["user"]["uid"])
server.modprobe(name="Kernel modules", module=want["modules"])


def look(command: str) -> str:
    """What a command prints on the host."""
    return host.get_fact(Command, command=command) or ""


if "mlx5_core" not in look("ls /sys/module"):
    raise SystemExit(f"{host.name}: the inbox driver is not loaded")


def mtu_script(folder: str, card: dict) -> str:
    """Give every network device the MTU of its kind."""
    return (
        f"for mtu in {folder}/net/*/mtu; do echo {card['mtu_bytes']} >$mtu; done; "
        f"for mtu in {folder}/virtfn*/net/*/mtu; do echo {card['vf_mtu_bytes']} >$mtu; done"
    )


for card in cards:
    pci, netdev = card["pci"], card["netdev"]
    folder = f"/sys/bus/pci/devices/{pci}"
    found = look(
        f"cat {folder}/device {folder}/sriov_numvfs; "
        f"cat {folder}/net/*/mtu {folder}/virtfn*/net/*/mtu 2>/dev/null | sort -u; true"
    ).split()
    if found[0] != card["device_id"]:
        raise SystemExit(f"{host.name}: {pci} is another card: {found[0]}")
    if found[1] != str(card["vfs"]):
        server.shell(
            name=f"VFs of {netdev}",
            commands=[
                f"echo 0 >{folder}/sriov_numvfs && echo {card['vfs']} >{folder}/sriov_numvfs"
            ],
        )
    if found[1] != str(card["vfs"]) or set(found[2:]) != {str(card["mtu_bytes"])}:
        server.shell(name=f"MTU of {netdev} and its VFs", commands=[mtu_script(folder, card)])

    if not re.search(rf"[<,]{card['link'].upper()}[,>]", look(f"ip link show dev {netdev}")):
        command = f"ip link set dev {netdev} {card['link']}"
        server.shell(name=f"Link of {netdev}", commands=[command])

    if re.search(r":.*on", look(f"ethtool -a {netdev}")):
        server.shell(
            name=f"No global pause on {netdev}", commands=[f"ethtool -A {netdev} rx off tx off"]
        )

    qos = look(f"mlnx_qos -i {netdev}")
    commands = []
    if "Priority trust state: dscp" not in qos:
        commands.append(f"mlnx_qos -i {netdev} --trust dscp")
    if not re.search("enabled +" + card["pfc"].replace(",", " +"), qos):
        commands.append(f"mlnx_qos -i {netdev} --pfc {card['pfc']}")
    commands += [
        f"mlnx_qos -i {netdev} --dscp2prio set,{each['dscp']},{each['priority']}"
        for each in want["dscp_map"]
        if not re.search(rf"prio:{each['priority']} dscp:[0-9,]*\b{each['dscp']:02},", qos)
    ]
    if commands:
        server.shell(name=f"Trust, PFC and DSCP map of {netdev}", commands=commands)

    ecn = want["ecn"]
    ecn_files = {
        f"/sys/class/net/{netdev}/ecn/roce_np/enable/{ecn['priority']}": "1",
        f"/sys/class/net/{netdev}/ecn/roce_rp/enable/{ecn['priority']}": "1",
        f"/sys/class/net/{netdev}/ecn/roce_np/cnp_dscp": str(ecn["cnp_dscp"]),
        f"/sys/class/net/{netdev}/ecn/roce_np/cnp_802p_prio": str(ecn["cnp_priority"]),
    }
    if look(f"cat {' '.join(ecn_files)}").split() != list(ecn_files.values()):
        server.shell(
            name=f"ECN and CNP marks of {netdev}",
            commands=[f"echo {value} >{path}" for path, value in ecn_files.items()],
        )

    tclass = f"{folder}/infiniband/$(ls {folder}/infiniband)/tc/1/traffic_class"
    if look(f"cat {tclass}") != f"Global tclass={want['traffic_class']}":
        server.shell(
            name=f"Traffic class of raw verbs of {netdev}",
            commands=[f"echo {want['traffic_class']} >{tclass}"],
        )

    device = f"/sys/kernel/config/rdma_cm/$(ls {folder}/infiniband)"
    rdma_cm = want["rdma_cm"]
    modes = f"{device}/ports/1/default_roce_mode {device}/ports/1/default_roce_tos"
    if look(f"mkdir -p {device}; cat {modes}; rmdir {device}").splitlines() != [
        rdma_cm["mode"],
        str(rdma_cm["tos"]),
    ]:
        put = [
            f"mkdir -p {device} && cd {device}/ports/1",
            f"echo '{rdma_cm['mode']}' >default_roce_mode",
            f"echo {rdma_cm['tos']} >default_roce_tos",
            f"cd / && rmdir {device}",
        ]
        server.shell(name=f"RDMA-CM of {netdev}", commands=["; ".join(put)])

ACS = "ECAP_ACS+0x6.w"
bridges = "grep -l '^0x0604' /sys/bus/pci/devices/*/class | cut -d / -f 6"
words = look(
    f"for each in $({bridges}); do echo $each $(setpci -s $each {ACS} 2>/dev/null); done; true"
)
redirecting = [
    line.split()[0]
    for line in words.splitlines()
    if len(line.split()) > 1 and line.split()[1] != "0000"
]
if redirecting:
    server.shell(
        name="No ACS redirect on the bridges",
        commands=[f"setpci -s {bridge} {ACS}=0000" for bridge in redirecting],
    )
files.put(
    name="Locked memory of the user",
    src=io.StringIO(want["user"]["limits"]),
    dest=f"/etc/security/limits.d/90-railyard-{want['user']['name']}.conf",
    mode="644",
)

drop_in = f"/etc/systemd/system/{want['memlock']['unit']}.service.d"
files.directory(name="Folder of the limit's drop-in", path=drop_in, mode="755")
limit = files.put(
    name="Locked memory of what starts pods",
    src=io.StringIO(f"[Service]\nLimitMEMLOCK={want['memlock']['value']}\n"),
    dest=f"{drop_in}/10-railyard-memlock.conf",
    mode="644",
)
for path in ("/etc/railyard", "/usr/local/lib/railyard"):
    files.directory(name=f"Folder {path}", path=path, mode="755")
placed = [
    files.put(name=f"File {each['path']}", src=each["source"], dest=each["path"], mode="644")
    for each in want["files"]
]
systemd.daemon_reload(
    name="Reload units", _if=lambda: any(each.did_change() for each in (limit, *placed))
)
systemd.service(
    name="Boot unit enabled", service="railyard-nics.service", enabled=True, running=None
)
