"""The law of a host's scripts over random starting states, on emulated hosts over real SSH.

Whatever a host was like: after converge nothing differs, a second converge changes nothing, and
undo leaves the whole host as it was, with everything beside our settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from components.hosts.host_plan import HostPlan
from components.model.guard_spec import Guards
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
CARDS = (("0000:05:00.0", "enp5s0"), ("0000:84:00.0", "enp132s0"))
EXAMPLES = 3
"""Each is three runs on a host and two snapshots: some seconds."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("property") / "lab"
    with running_hosts("host-property", root, only=("gpu01",)) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


BITS = st.lists(st.sampled_from("01"), min_size=8, max_size=8).map(",".join)
SWITCH = st.sampled_from(["on", "off"])
PRIORITY = st.integers(0, 7)
EIGHT = st.lists(PRIORITY, min_size=8, max_size=8).map(lambda each: ",".join(map(str, each)))
ALGORITHMS = st.sampled_from(
    (
        "-s vendor,vendor,vendor,vendor,vendor,vendor,vendor,vendor",
        "-s strict,strict,strict,strict,strict,strict,strict,strict",
        "-s ets,ets,strict,ets,vendor,ets,strict,ets -t 50,0,0,20,0,5,0,25",
    )
)
RATES = st.lists(st.sampled_from((0, 0, 1, 40)), min_size=8, max_size=8).map(
    lambda each: ",".join(map(str, each))
)
REPAIR_ALL = Guards.model_validate(
    {
        "host": dict.fromkeys(
            ("priority_classes", "ets", "rate_limit", "dscp_map", "vf_rights", "ip"), "repair"
        )
    }
)


@st.composite
def vfs(draw: st.DrawFn, pci: str, netdev: str) -> str:
    """The card's MTU, how many VFs there are, and their MTU, which is no greater."""
    count = draw(st.sampled_from([0, 1, 4, 8, 16]))
    mtu_bytes = draw(st.sampled_from([1500, 4200, 9000]))
    device = f"/sys/bus/pci/devices/{pci}"
    return (
        f"echo 0 >{device}/sriov_numvfs\n"
        f"echo {draw(st.sampled_from([1500, 4200, 9000]))} >/sys/class/net/{netdev}/mtu\n"
        f"echo {count} >{device}/sriov_numvfs\n"
        f"for mtu in {device}/virtfn*/net/*/mtu; do\n"
        f"  [ ! -e $mtu ] || echo {mtu_bytes} >$mtu\n"
        "done\n"
    )


@st.composite
def quality(draw: st.DrawFn, pci: str, netdev: str) -> str:
    """Trust, PFC, DSCP map, ECN, CNP, pause and RDMA-CM; of some, also what is not ours."""
    ecn = f"/sys/class/net/{netdev}/ecn"
    device = f"/sys/kernel/config/rdma_cm/$(ls /sys/bus/pci/devices/{pci}/infiniband)"
    lines = [
        f"mlnx_qos -i {netdev} --trust {draw(st.sampled_from(['pcp', 'dscp']))}",
        f"mlnx_qos -i {netdev} --pfc {draw(BITS)}",
        *(
            f"mlnx_qos -i {netdev} --dscp2prio set,{dscp},{draw(PRIORITY)}"
            for dscp in (26, 48, draw(st.integers(0, 63)))
        ),
        f"mlnx_qos -i {netdev} -p {draw(EIGHT)}",
        f"mlnx_qos -i {netdev} {draw(ALGORITHMS)}",
        f"mlnx_qos -i {netdev} -r {draw(RATES)}",
        *(
            f"echo {draw(st.sampled_from('01'))} >{ecn}/roce_{point}/enable/{priority}"
            for point in ("np", "rp")
            for priority in (3, 5)
        ),
        f"echo {draw(st.integers(0, 63))} >{ecn}/roce_np/cnp_dscp",
        f"echo {draw(PRIORITY)} >{ecn}/roce_np/cnp_802p_prio",
        # ethtool fails where it is so already, as the real one does.
        f"ethtool -A {netdev} rx {draw(SWITCH)} tx {draw(SWITCH)} || :",
        f"mkdir {device}; cd {device}/ports/1",
        f"echo '{draw(st.sampled_from(['RoCE v1', 'RoCE v2']))}' >default_roce_mode",
        f"echo {draw(st.integers(0, 255))} >default_roce_tos; cd /; rmdir {device}",
    ]
    return "\n".join((*lines, ""))


@st.composite
def system(draw: st.DrawFn) -> str:
    """Names, modules, limits; and files and settings that are nobody's business."""
    stored, running = draw(st.sampled_from([("gpu01", "gpu01"), ("old", "old"), ("old", "gpu01")]))
    entry = draw(st.sampled_from(["", "192.0.2.7 storage\\n", "192.0.2.7 storage"]))
    memlock = "/etc/systemd/system/k3s-agent.service.d"
    limit = draw(st.sampled_from(["", "65536", "infinity"]))
    peermem = draw(st.booleans())
    return "\n".join(
        (
            f"printf '{stored}\\n' >/etc/hostname; hostname {running}",
            f"printf '127.0.0.1 localhost\\n{entry}' >/etc/hosts",
            "modprobe nvidia_peermem" if peermem else "modprobe -r nvidia_peermem || :",
            f"rm -rf {memlock}",
            f"mkdir -p {memlock}; chmod 755 {memlock}" if limit else "",
            f"printf '[Service]\\nLimitMEMLOCK={limit}\\n' >{memlock}/10-railyard-memlock.conf"
            if limit
            else "",
            f"chmod 644 {memlock}/* 2>/dev/null; systemctl daemon-reload",
            f"sysctl -q -w vm.swappiness={draw(st.integers(0, 100))}",
            f"echo {draw(st.integers(0, 9))} >/etc/modprobe.d/somebody.conf",
            "",
        )
    )


@st.composite
def starting_states(draw: st.DrawFn) -> str:
    """A script that brings a host into one of many states."""
    cards = [draw(vfs(pci, netdev)) + draw(quality(pci, netdev)) for pci, netdev in CARDS]
    return "".join((*cards, draw(system())))


def _flat(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, object]", value).items():
            yield from _flat(each, f"{path}/{key}")
    elif isinstance(value, list):
        for number, each in enumerate(cast("list[object]", value)):
            yield from _flat(each, f"{path}/{number}")
    else:
        yield path, value


def _everything(lab: HostLab, plan: HostPlan) -> dict[str, object]:
    """The whole host, by path, without what nobody can put back."""
    found = dict(_flat(lab.snapshot(plan.name)))
    for pci, _ in CARDS:
        # The card shows its DSCP map under trust dscp alone, and uses it then alone: what it was
        # under trust pcp cannot be read, so undo leaves it.
        if found[f"/nics/{pci}/qos/trust"] == "pcp":
            for dscp in range(64):
                del found[f"/nics/{pci}/qos/dscp_to_priority/{dscp}"]
    # The kernel numbers the RDMA devices of VFs in the order in which they were made.
    return {path: value for path, value in found.items() if not path.endswith("/rdma")}


def _check(lab: HostLab, plan: HostPlan, start: str) -> None:
    lab.sh(plan, f"set -u\n{start}exit 0\n")
    before = _everything(lab, plan)
    first = lab.apply(plan)
    assert first.exit_status == 0, first.stderr
    assert lab.drift(plan) == ()
    second = lab.apply(plan)
    assert json.loads(second.stdout)["changed"] == [], second.stderr
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    assert json.loads(undone.stdout)["left"] == []
    after = _everything(lab, plan)
    moved = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert {path: (before.get(path), after.get(path)) for path in moved} == {}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(start=starting_states(), guards=st.sampled_from((Guards(), REPAIR_ALL)))
def test_from_any_state_there_and_back(lab: HostLab, start: str, guards: Guards) -> None:
    """With what the file repairs, too."""
    note(start)
    _check(lab, lab.plan("gpu01", lab.spec.model_copy(update={"guards": guards})), start)
