"""What a hand may do to a lab host: seen by the same commands as on a real one."""

from __future__ import annotations

import pytest

from components.core.errors import UsageError
from tests.lab_hosts.conftest import SmallLab

pytestmark = pytest.mark.lab
UNIT = "fault-test.service"
HOLD = f"""
printf '[Service]\\nExecStart=/bin/sleep 600\\n' >/etc/systemd/system/{UNIT}
systemctl daemon-reload
systemctl start {UNIT}
"""


def fault(lab: SmallLab, *words: str) -> str:
    return str(lab.ask(op="fault", device="gpu02", args=list(words))["text"])


def test_a_unit_that_is_stopped_by_hand(lab: SmallLab) -> None:
    lab.out("gpu02", HOLD)
    assert fault(lab, "unit-stopped", UNIT) == f"{UNIT} is stopped"
    assert lab.root_sh("gpu02", f"systemctl is-active {UNIT}").stdout == "inactive\n"
    with pytest.raises(UsageError, match="does not run on gpu02"):
        fault(lab, "unit-stopped", UNIT)
    lab.out("gpu02", f"rm /etc/systemd/system/{UNIT}; systemctl daemon-reload")


def test_a_card_that_lost_its_addresses(lab: SmallLab) -> None:
    lab.out("gpu02", "ip address add 10.9.9.2/24 dev enp5s0")
    assert "10.9.9.2" in lab.out("gpu02", "ip -o -4 addr show dev enp5s0")
    assert fault(lab, "address-lost", "enp5s0") == "enp5s0 has no address"
    assert "10.9.9.2" not in lab.out("gpu02", "ip -o -4 addr show dev enp5s0")


def test_firmware_that_somebody_set_for_the_next_start(lab: SmallLab) -> None:
    show = "mlxconfig -d 0000:05:00.0 query ATS_ENABLED"
    before = lab.out("gpu02", show)
    assert "False(0)" in before
    assert fault(lab, "firmware", "enp5s0", "ATS_ENABLED", "1").endswith("at its next start")
    assert "True(1)" in lab.out("gpu02", show)
    fault(lab, "firmware", "enp5s0", "ATS_ENABLED", "0")
    assert lab.out("gpu02", show) == before


def test_firmware_that_lacks_a_setting_until_it_is_renewed(lab: SmallLab) -> None:
    show = "mlxconfig -d 0000:05:00.0 query"
    before = lab.out("gpu02", show)
    assert "ATS_ENABLED" in before
    fault(lab, "firmware-lacks", "enp5s0", "ATS_ENABLED")
    assert "ATS_ENABLED" not in lab.out("gpu02", show)
    fault(lab, "firmware-lacks", "enp5s0", "nothing")
    assert lab.out("gpu02", show) == before


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("address-lost", "eth9"), "has no card 'eth9'"),
        (("firmware", "enp5s0", "NOTHING", "1"), "its firmware has no setting 'NOTHING'"),
        (("container-removed", "x"), "gpu02 has no container 'x'"),
        (("unknown",), "the faults of a host are"),
    ],
)
def test_a_fault_that_cannot_be(lab: SmallLab, words: tuple[str, ...], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        fault(lab, *words)


def test_a_gpu_with_a_narrow_link_shows_on_the_host_and_in_a_pod(lab: SmallLab) -> None:
    query = ("--query-gpu=index,pcie.link.width.current", "--format=csv,noheader")

    def in_pod(*words: str) -> str:
        pod = {"name": "p", "node": "gpu02", "command": words, "gpus": 8}
        return str(lab.ask(op="gpu_call", pod=pod)["log"])

    assert fault(lab, "gpu-width", "3", "8") == "the PCIe link of GPU 3 runs at 8 lanes"
    shown = lab.out("gpu02", f"nvidia-smi {' '.join(query)}")
    assert "3, 8\n" in shown
    assert in_pod("nvidia-smi", *query) == shown
    copies = in_pod("nvbandwidth", "-j", "-t", "host_to_device_memcpy_ce")
    assert copies.count('"6.76') == 1
    assert copies.count('"13.53') == 7
    with pytest.raises(UsageError, match="the lab plays all_reduce"):
        in_pod("reduce_perf", "-g", "8")
    fault(lab, "gpu-width", "3", "16")
