"""iproute2's dcb: the emulated tool prints what the real one does, and hosts read that."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from lab.hosts.model import HostModel
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.dcb import dcb
from tests.hosts.folder_host import folder_host
from tests.lab_hosts.conftest import make_host

RECORDED = TypeAdapter(dict[str, str]).validate_python(
    yaml.safe_load(Path(__file__).with_name("dcb_6.1.0.yaml").read_text())
)
PCI = "0000:05:00.0"


@pytest.fixture
def model(tmp_path: Path) -> HostModel:
    host = HostModel(make_host("gpu01", "127.0.0.1"), tmp_path / "nvram.json")
    host.boot("gpu01")
    return host


def call(model: HostModel, *argv: str, uid: int = 0) -> ToolResult:
    return dcb(ToolCall("dcb", argv, uid, 0, "/", model, model.nvram_path.parent))


@pytest.mark.parametrize("kind", RECORDED)
def test_the_emulated_tool_prints_what_the_real_one_does(model: HostModel, kind: str) -> None:
    qos = model.nics[0].qos
    qos.dcbx, qos.trust = "fw", "dscp"
    qos.pfc[3] = 1
    qos.buffers = ((130944, 130944, 0, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0, 0, 0))
    qos.tsa[:3], qos.tc_bandwidth[1:3] = ["strict", "ets", "ets"], [10, 90]
    qos.rate_gbit_s[1] = 5
    assert call(model, "-j", kind, "show", "dev", "enp5s0").out == f"{RECORDED[kind]}\n"


def test_a_host_reads_what_the_real_tool_prints(tmp_path: Path) -> None:
    host = folder_host(tmp_path)
    host.card(PCI, "enp5s0", vfs=0)
    host.tool("systemctl", "exit 3")  # lldpad does not run
    for kind, text in RECORDED.items():
        host.write(f"answers/{kind}", f"{text}\n")
    host.tool("dcb", 'cat "$F/answers/$2"')
    wanted = {
        "dcbx": "fw",
        "lldpad": "absent",
        "trust": "dscp",
        "pfc": "3",
        "cable_length_m": "7",
        "buffers": "130944,130944,0,0,0,0,0,0/0,0,0,1,0,0,0,0",
        "dscp26_priority": "3",
        "dscp9_priority": "1",
        "priority_classes": "1,0,2,3,4,5,6,7",
        "ets": "strict,ets:10,ets:90,vendor,vendor,vendor,vendor,vendor",
        "tc0_rate": "unlimited",
        "tc1_rate": "unsupported",  # its unit is another one in later releases
    }
    asked = [
        f"nic.{PCI}.{key}={value}" for key, value in {**wanted, "tc1_rate": "unlimited"}.items()
    ]
    found = host.observe(*asked)
    assert {key: found[f"nic.{PCI}.{key}"] for key in wanted} == wanted
    host.tool("dcb", "echo; echo 'Attribute read: Operation not supported' >&2; exit 1")
    nothing = host.observe(*asked)
    assert {nothing[f"nic.{PCI}.{key}"] for key in wanted} == {"unsupported"}


@pytest.mark.parametrize(
    ("words", "err"),
    [
        ("ets set dev enp5s0 prio-tc 0:1", "Bandwidth percentages in tc-bw sum to 800%"),
        ("ets set dev enp5s0 tc-tsa 1:ets tc-bw all:0 1:90", "sum to 90%, expected 100%"),
        ("pfc set dev nosuch prio-pfc 0:on", "Attribute read: No such device"),
        ("buffer set dev enp5s0 buffer-size 0:999999", "Attribute write: Invalid argument"),
        ("pfc set dev enp5s0 prio-pfc 8:on", "Invalid prio-pfc mapping 8:on"),
    ],
)
def test_what_the_tool_and_the_driver_refuse(model: HostModel, words: str, err: str) -> None:
    done = call(model, *words.split())
    assert (done.rc, err in done.err) == (1, True)
    assert model.unmodelled == []


def test_the_first_entry_is_trust_and_the_last_one_ends_it(model: HostModel) -> None:
    """As mlx5e_dcbnl_ieee_setapp and …_delapp of en_dcbnl.c."""
    call(model, "app", "add", "dev", "enp5s0", "dscp-prio", "26:3")
    shown = call(model, "-j", "app", "show", "dev", "enp5s0").out
    assert (model.nics[0].qos.trust, shown) == ("dscp", '{"dscp_prio":[[26,3]]}\n')
    again = call(model, "app", "add", "dev", "enp5s0", "dscp-prio", "26:3")
    assert again.err == "Attribute write: File exists\n"
    call(model, "app", "flush", "dev", "enp5s0", "dscp-prio")
    assert call(model, "-j", "app", "show", "dev", "enp5s0").out == "{}\n"
    assert model.nics[0].qos.trust == "pcp"
    refused = call(model, "pfc", "set", "dev", "enp5s0", "prio-pfc", "3:on", uid=1000)
    assert refused.err == "Attribute write: Operation not permitted\n"
