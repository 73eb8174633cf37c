"""The law of idempotence and of undo for one card, from whatever state a hand left it in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.core.key_values import diff_states, parse_state
from components.hosts.host_plan import HostPlan
from components.model.cards import HostQos, Sriov
from tests.over_ssh.host_lab import HostLab, running_hosts
from tests.over_ssh.test_vfs import DEVICE, PCI, one_card_spec

pytestmark = pytest.mark.lab
EXAMPLES = 3
"""Each takes some seconds: five scripts run on an emulated host."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("vfproperty") / "lab"
    with running_hosts("vf-property", root, only=("gpu01",)) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


@dataclass(frozen=True)
class ByHand:
    """What somebody did to the card before Railyard came."""

    vfs: int
    vf: str
    """Settings of one VF, as `ip link set` takes them."""
    eswitch: str
    qos: tuple[str, ...]
    pause: str

    @property
    def script(self) -> str:
        settings_of_vf = f"ip link set dev enp5s0 vf 0 {self.vf}" if self.vfs and self.vf else ":"
        return "\n".join(
            (
                "set -e",
                f"devlink dev eswitch set pci/{PCI} mode legacy",
                f"echo 0 >{DEVICE}/sriov_numvfs",
                f"echo {self.vfs} >{DEVICE}/sriov_numvfs",
                settings_of_vf,
                f"ethtool -A enp5s0 rx {self.pause} tx {self.pause}",
                *(f"mlnx_qos -i enp5s0 {option} >/dev/null" for option in self.qos),
                f"devlink dev eswitch set pci/{PCI} mode {self.eswitch}",
            )
        )


RATES = st.sampled_from(
    ("", " max_tx_rate 3000", " min_tx_rate 500 max_tx_rate 900", " min_tx_rate 5000")
)
VF = st.builds(
    "trust {} spoofchk {} vlan {} qos {}{}".format,
    st.sampled_from(("on", "off")),
    st.sampled_from(("on", "off")),
    st.sampled_from((0, 7, 111)),
    st.just(0),
    RATES,
)
QOS = st.tuples(
    st.sampled_from(("--trust pcp", "--trust dscp")),
    st.sampled_from(("--pfc 0,0,0,0,0,0,0,0", "--pfc 0,0,0,1,1,0,0,0", "--pfc 1,0,0,0,0,0,0,1")),
    st.sampled_from(("--dscp2prio set,26,5", "--dscp2prio set,26,3")),
    st.sampled_from(("-d os", "-d fw")),
)
HANDS = st.builds(
    ByHand, st.integers(0, 4), VF, st.just("legacy"), QOS, st.sampled_from(("on", "off"))
)
SWITCHDEV = st.builds(ByHand, st.just(2), st.just(""), st.just("switchdev"), QOS, st.just("off"))
WANTED = st.builds(
    Sriov,
    eswitch=st.just("legacy"),
    min_rate_mbit_s=st.sampled_from((None, 0, 1000)),
    max_rate_mbit_s=st.sampled_from((None, 0, 2000)),
    vlan=st.sampled_from((None, 0, 111)),
    trust=st.sampled_from((None, True, False)),
    spoofchk=st.sampled_from((None, True, False)),
    autoprobe=st.sampled_from((None, True)),
)
CABLES = st.builds(HostQos, cable_length_m=st.sampled_from((None, 3, 50)))


def card_lines(plan: HostPlan) -> str:
    """The plan's settings of the card alone: the rest of the host has tests of its own."""
    kept = ("stack=", "nic.", "vf.", "module.rdma_cm")
    return "".join(
        f"{line}\n" for line in plan.converge.desired.splitlines() if line.startswith(kept)
    )


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),  # a smaller example would take minutes to find
)
@given(by_hand=HANDS | SWITCHDEV, wanted=WANTED, qos=CABLES, vfs=st.integers(0, 4))
def test_apply_is_the_end_of_differences_and_undo_of_traces(
    lab: HostLab, by_hand: ByHand, wanted: Sriov, qos: HostQos, vfs: int
) -> None:
    plan = lab.plan("gpu01", one_card_spec(lab.spec, wanted, qos, {"vfs": vfs}))
    lines = card_lines(plan)
    lab.sh(plan, by_hand.script)
    before = lab.snapshot("gpu01")
    applied = lab.apply(plan, lines)
    assert applied.exit_status == 0, applied.stderr
    answer = lab.run(plan, plan.watched.observe, lines)
    desired = plan.watched.settings_in(lines)
    assert diff_states(parse_state(answer.stdout), desired) == ()
    assert json.loads(lab.apply(plan, lines).stdout)["changed"] == []
    undone = lab.undo(plan)
    assert undone.exit_status == 0, undone.stderr
    assert json.loads(undone.stdout)["left"] == []
    assert lab.snapshot("gpu01") == before
