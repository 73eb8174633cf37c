"""A host with the kernel's own driver and no mlnx_qos: iproute2's dcb sets and reads QoS."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from components.hosts.host_plan import HostPlan
from components.model.cards import HostQos, Sriov
from tests.golden.site import changed_spec
from tests.over_ssh.host_lab import HostLab, running_hosts, without_driver
from tests.over_ssh.test_vfs import BUFFERS, CARD, one_card_spec

pytestmark = pytest.mark.lab
QOS = ("dcbx", "trust", "pfc", "cable_length_m", "buffers", "dscp26_priority", "dscp48_priority")
CLASSES = (
    f"{CARD}.ets=strict,ets:10,ets:90,vendor,vendor,vendor,vendor,vendor",
    f"{CARD}.priority_classes=1,0,2,3,4,5,6,6",
    f"{CARD}.tc3_rate=unlimited",
)
SHOW = "for what in app pfc buffer ets maxrate; do dcb -j $what show dev enp5s0; done"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("dcb") / "lab"
    with running_hosts("dcb", root, only=("gpu01",), edit=without_driver) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


def lossless(lab: HostLab, qos: HostQos) -> HostPlan:
    spec = one_card_spec(lab.spec, Sriov(), qos, {"vfs": 0})
    rdma = spec.rdma.model_copy(update={"mode": "lossless"})
    return lab.plan("gpu01", changed_spec(spec, rdma=rdma))


def qos_lines(lab: HostLab, plan: HostPlan, *more: str) -> str:
    values = plan.desired.values
    chosen = [f"{CARD}.{name}={values[f'{CARD}.{name}']}" for name in QOS]
    return "".join(f"{line}\n" for line in (f"stack={lab.stack}", *chosen, *more))


def test_all_is_set_read_and_given_back_by_dcb(lab: HostLab) -> None:
    plan = lossless(lab, BUFFERS)
    assert lab.sh(plan, "command -v mlnx_qos || echo none") == "none\n"
    before = lab.sh(plan, SHOW)
    lines = qos_lines(lab, plan, *CLASSES)
    assert (applied := lab.apply(plan, lines)).exit_status == 0, applied.stderr
    assert lab.apply(plan, lines).exit_status == 0
    app, pfc, buffers, ets, rates = map(json.loads, lab.sh(plan, SHOW).splitlines())
    assert [26, 3] in app["dscp_prio"]
    assert [48, 6] in app["dscp_prio"]
    assert len(app["dscp_prio"]) == 64
    assert pfc["prio_pfc"] == [priority == 3 for priority in range(8)]
    assert pfc["delay"] == 5
    assert (buffers["buffer_size"][3], buffers["prio_buffer"][3]) == (150000, 3)
    assert ets["tc_tsa"][:4] == ["strict", "ets", "ets", "vendor"]
    assert ets["tc_bw"][1:3] == [10, 90]
    assert ets["prio_tc"] == [1, 0, 2, 3, 4, 5, 6, 6]
    assert rates["tc_maxrate"] == [0] * 8
    assert json.loads(lab.apply(plan, lines).stdout)["changed"] == []
    assert (undone := lab.undo(plan)).exit_status == 0, undone.stderr
    assert json.loads(undone.stdout)["left"] == []
    assert lab.sh(plan, SHOW) == before
