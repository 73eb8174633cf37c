from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.acceptance.acceptance_plan import CounterSource, HopPlan
from components.acceptance.collect import counters
from components.acceptance.collect.counters import (
    Snapshot,
    counters_script,
    flatten_port,
    measure_hop,
    parse_ethtool,
    read_snapshot,
)
from components.acceptance.evidence import HopRole
from components.core.errors import DeviceError, UnreachableError
from components.fabric.systems.base import PortCounters, PriorityCounters, Unread
from components.plan.make import make_plan
from components.remote.host_session import HostAnswer
from components.remote.step import Endpoint
from tests.golden.site import load_example

SOURCES = make_plan(load_example("dgx-roce"), "dev").acceptance.sources
SWITCH, GPU01 = SOURCES[0], SOURCES[1]

# The layout of `ethtool -S` with mlx5_core: one counter a line, indented, after a heading.
ETHTOOL = """NIC statistics:
     rx_packets: 12
     rx_prio3_bytes: 1000
     tx_prio3_bytes: 2000
     rx_prio3_pause: 4
     tx_prio3_pause: 5
     rx_prio3_pause_duration: 999
     rx_out_of_buffer: 7
     rx_discards_phy: 1
     ch0_events: 33
"""
TWO = f"=== enp5s0\n{ETHTOOL}out_of_sequence: 6\n=== enp132s0\n{ETHTOOL}"


def test_ethtool_is_read_by_interface() -> None:
    found = parse_ethtool(TWO, GPU01)
    assert list(found) == ["enp5s0", "enp132s0"]
    assert found["enp5s0"]["tx_prio3_bytes"] == 2000
    assert found["enp5s0"]["out_of_sequence"] == 6
    assert "out_of_sequence" not in found["enp132s0"]
    assert "NIC statistics" not in found["enp5s0"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"=== enp5s0\n{ETHTOOL}",
        f"=== enp5s0\n{ETHTOOL}=== enp132s0\nno stats available\n",
    ],
)
def test_an_interface_without_counters_is_an_error(text: str) -> None:
    with pytest.raises(DeviceError, match=r"gpu01 \(.*: `ethtool -S enp.*` printed no counters"):
        parse_ethtool(text, GPU01)


NAMES = st.from_regex(re.compile(r"[a-z][a-z0-9_]{0,20}", re.ASCII), fullmatch=True)


@given(values=st.dictionaries(NAMES, st.integers(0, 2**64), min_size=1))
def test_any_counter_is_read_as_it_was_printed(values: Mapping[str, int]) -> None:
    text = "".join(f"     {name}: {value}\n" for name, value in values.items())
    source = CounterSource(GPU01.endpoint, "linux", ("enp5s0",))
    assert parse_ethtool(f"=== enp5s0\nNIC statistics:\n{text}", source) == {"enp5s0": values}


def port(rx3: int, tx3: int, *, ecn: int = 0) -> PortCounters:
    return PortCounters(
        {3: PriorityCounters(rx3, tx3), 0: PriorityCounters(10, 20)},
        ecn_marked=ecn,
        rx_discards=2,
    )


def test_a_switch_port_counts_received_by_priority_and_sent_by_class() -> None:
    assert flatten_port(port(100, 200, ecn=5)) == {
        "ecn_marked": 5,
        "rx_discards": 2,
        "rx_prio3_bytes": 100,
        "tx_tc3_bytes": 200,
        "rx_prio0_bytes": 10,
        "tx_tc0_bytes": 20,
    }


def hop(role: HopRole, device: str = "gpu01", interface: str = "enp5s0") -> HopPlan:
    return HopPlan("rail-0", "gpu01 -> gpu02", role, device, interface)


def at(device: str, interface: str, **values: int) -> Snapshot:
    return Snapshot({(device, interface): values})


def test_a_sender_counts_what_it_sent() -> None:
    before = at("gpu01", "enp5s0", tx_prio3_bytes=100, rx_prio3_bytes=50, rx_prio3_pause=1)
    after = at(
        "gpu01",
        "enp5s0",
        tx_prio3_bytes=1100,
        tx_prio0_bytes=4,
        rx_prio3_bytes=90,
        rx_prio3_pause=3,
        tx_prio3_pause=10,
        rx_prio3_pause_duration=77,
        rx_out_of_buffer=2,
        out_of_sequence=8,
    )
    measured = measure_hop(hop("sender_nic"), before, after)
    assert measured.status == "observed"
    assert measured.bytes_by_class == {3: 1000, 0: 4}
    assert measured.total_bytes == 1004
    assert (measured.pause_frames, measured.discards, measured.out_of_sequence) == (12, 2, 8)
    assert measured.ecn_marked is None
    assert measure_hop(hop("receiver_nic"), before, after).bytes_by_class == {3: 40}


def test_a_switch_counts_in_by_priority_and_out_by_class() -> None:
    before = Snapshot({("leaf-01", "1/2"): flatten_port(port(0, 0))})
    after = Snapshot({("leaf-01", "1/2"): flatten_port(port(500, 900, ecn=3))})
    ingress = measure_hop(hop("switch_ingress", "leaf-01", "1/2"), before, after)
    egress = measure_hop(hop("switch_egress", "leaf-01", "1/2"), before, after)
    assert (ingress.bytes_by_class[3], egress.bytes_by_class[3]) == (500, 900)
    assert (egress.ecn_marked, egress.discards, egress.pause_frames) == (3, 0, None)


def test_a_switch_that_counts_no_priorities_on_the_way_in_tells_how_much_came() -> None:
    def eos(received: int, sent: int) -> Snapshot:
        counted = PortCounters({3: PriorityCounters(None, sent)}, 0, 0, rx_bytes=received)
        return Snapshot({("leaf-01", "Ethernet1/1"): flatten_port(counted)})

    before, after = eos(100, 10), eos(5100, 4010)
    ingress, egress = (
        measure_hop(hop(role, "leaf-01", "Ethernet1/1"), before, after)
        for role in ("switch_ingress", "switch_egress")
    )
    assert (ingress.status, ingress.bytes_by_class, ingress.total_bytes) == ("uncounted", {}, 5000)
    assert (egress.bytes_by_class, egress.total_bytes) == ({3: 4000}, 4000)


@pytest.mark.parametrize("name", ["tx_prio3_bytes", "out_of_sequence", "link_down_events_phy"])
def test_a_counter_that_went_back_leaves_the_hop_uncounted(name: str) -> None:
    """The driver was loaded again, or 32 bits were full: what is there now says nothing."""
    before = at("gpu01", "enp5s0", **{"tx_prio3_bytes": 5, "out_of_sequence": 1, name: 2**32 - 9})
    after = at("gpu01", "enp5s0", **{"tx_prio3_bytes": 900, "out_of_sequence": 1, name: 300})
    found = measure_hop(hop("sender_nic"), before, after)
    assert (found.status, found.total_bytes, found.bytes_by_class) == ("not_counted", 0, {})
    assert found.detail.startswith(f"{name} went back from 4294967287 to 300: it was cleared")


def test_what_is_no_sum_may_go_back() -> None:
    """`outbound_pci_stalled_rd` is a percentage of the last second (mlx5/counters.rst)."""
    before = at("gpu01", "enp5s0", tx_prio3_bytes=5, outbound_pci_stalled_rd=80)
    after = at("gpu01", "enp5s0", tx_prio3_bytes=900, outbound_pci_stalled_rd=3)
    assert measure_hop(hop("sender_nic"), before, after).total_bytes == 895


# As the kernel names them: mlx5/counters.rst, infiniband/hw/mlx5/counters.c, bnxt_ethtool.c,
# bnxt_re/hw_counters.c, ice_ethtool.c.
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("link_down_events_phy", "errors"),
        ("rx_crc_errors_phy", "errors"),
        ("rx_symbol_err_phy", "errors"),
        ("rx_pcs_symbol_err_phy", "errors"),
        ("tx_pause_storm_error_events", "errors"),
        ("packet_seq_err", "errors"),
        ("local_ack_timeout_err", "errors"),
        ("rx_icrc_encapsulated", "errors"),
        ("link_down_events", "errors"),
        ("rx_fcs_err_frames", "errors"),
        ("rx_crc_errors.nic", "errors"),
        ("np_cnp_sent", "noted"),
        ("rp_cnp_handled", "noted"),
        ("roce_slow_restart", "noted"),
        ("rx_prio3_discards", "discards"),
        ("rx_prio3_buf_discard", "discards"),
        ("rx_prio3_cong_discard", "discards"),
        ("tx_discards_phy", "discards"),
        ("rx_stat_discard", "discards"),
        ("np_ecn_marked_roce_packets", "ecn_marked"),
        ("roce_adp_retrans", "retransmissions"),
        ("oos_drop_count", "out_of_sequence"),
    ],
)
def test_every_counter_of_losses_is_in_the_evidence(name: str, field: str) -> None:
    before, after = (at("gpu01", "enp5s0", rx_prio3_bytes=9, **{name: n}) for n in (7, 100_007))
    found = measure_hop(hop("receiver_nic"), before, after).model_dump()
    assert found[field] == ({name: 100_000} if field in {"errors", "noted"} else 100_000)


def test_discards_by_priority_are_those_of_the_port_again() -> None:
    grown = {"rx_discards_phy": 70, "rx_prio3_discards": 60, "rx_prio0_discards": 10}
    before = at("gpu01", "enp5s0", rx_prio3_bytes=1, **dict.fromkeys(grown, 0))
    after = at("gpu01", "enp5s0", rx_prio3_bytes=9, **grown)
    assert measure_hop(hop("receiver_nic"), before, after).discards == 70


@pytest.mark.parametrize(
    ("grown", "status", "total", "classes"),
    [
        ({"rx_bytes_pri3": 50, "rx_bytes_pri0": 8, "rx_bytes": 60}, "observed", 60, {3: 50, 0: 8}),
        # Priorities of one queue have its bytes each.
        ({"rx_bytes_pri3": 50, "rx_bytes_pri0": 50, "rx_bytes": 60}, "uncounted", 60, {}),
        ({"rx_bytes.nic": 60, "rx_bytes": 9}, "uncounted", 60, {}),
        ({"octets_rx_all": 60, "rx_bytes": 9, "frames_rx_pri_3": 4}, "uncounted", 60, {}),
        ({"rx_bytes": 9, "rdma_read_bytes": 60}, "uncounted", None, {}),
    ],
)
def test_other_drivers_count_under_other_names(
    grown: dict[str, int], status: str, total: int | None, classes: dict[int, int]
) -> None:
    before = at("gpu01", "enp5s0", **dict.fromkeys(grown, 0))
    found = measure_hop(hop("receiver_nic"), before, at("gpu01", "enp5s0", **grown))
    assert (found.status, found.total_bytes, found.bytes_by_class) == (status, total, classes)
    assert found.detail


def test_pauses_of_other_drivers_are_read_by_priority() -> None:
    for name in ("rx_pfc_ena_frames_pri3", "rx_priority_3_xoff.nic"):
        before, after = (at("gpu01", "enp5s0", **{name: n}) for n in (1, 8))
        assert measure_hop(hop("receiver_nic"), before, after).pauses_received == {3: 7}


def test_losses_are_counted_at_the_vfs_of_a_nic() -> None:
    """A VF has its own counter set; one that came in between has no growth that is known."""
    vf = {"vf.mlx5_2.out_of_sequence": 40, "vf.mlx5_2.packet_seq_err": 2}
    base = {"tx_prio3_bytes": 5, "out_of_sequence": 1, "vfs_hidden": 0}
    new = {"vf.mlx5_9.out_of_sequence": 999}
    before = at("gpu01", "enp5s0", **base, **dict.fromkeys(vf, 0))
    found = measure_hop(hop("sender_nic"), before, at("gpu01", "enp5s0", **base, **vf, **new))
    assert (found.out_of_sequence, found.errors, found.detail) == (40, {"packet_seq_err": 2}, "")
    hidden = at("gpu01", "enp5s0", **base | {"vfs_hidden": 8})
    for first, last in ((before, hidden), (hidden, before)):  # pods come, and pods go
        found = measure_hop(hop("sender_nic"), first, last)
        assert (found.status, found.detail.partition(":")[0]) == ("observed", "8 VFs are in pods")


def test_a_nic_without_a_counter_of_its_rdma_device_has_no_zero() -> None:
    before, after = (at("gpu01", "enp5s0", tx_prio3_bytes=n) for n in (5, 9))
    found = measure_hop(hop("sender_nic"), before, after)
    assert (found.out_of_sequence, found.discards) == (None, None)
    assert found.detail == "its RDMA device lacks the counter out_of_sequence"


def test_what_was_unread_before_has_no_growth() -> None:
    """The first answer was of an unknown form: the second is a sum since the start."""
    flat = flatten_port(port(500, 900, ecn=3_000_000))
    first = {name: 0 for name in flat if name != "ecn_marked"}
    unread = (Unread("marked", "show x", "?", "no counter"),)
    before = Snapshot({("leaf-01", "1/2"): first}, unread={("leaf-01", "1/2"): unread})
    after = Snapshot({("leaf-01", "1/2"): flat})
    found = measure_hop(hop("switch_egress", "leaf-01", "1/2"), before, after)
    assert (found.total_bytes, found.ecn_marked, found.discards) == (920, None, 2)


def test_a_counter_of_infiniband_that_stands_at_its_end_is_not_counted() -> None:
    """PortCounters stay there (infiniband/core/sysfs.c has their widths)."""
    ends = {"port_rcv_data": 2**32 - 1, "symbol_error": 2**16 - 1}
    for name, end in ends.items():
        seen = at("gpu01", "mlx5_0", **{"port_rcv_data": 7, name: end})
        found = measure_hop(hop("receiver_nic", "gpu01", "mlx5_0"), seen, seen)
        assert (found.status, f"{name} is at its end" in found.detail) == ("not_counted", True)


def test_the_reading_script_finds_a_nic_and_its_vfs(tmp_path: Path) -> None:
    """One VF is here, one is in a pod, and one has no driver."""
    (tmp_path / "sudo").write_text("#!/bin/sh\necho '     rx_prio3_bytes: 12'\n")
    (tmp_path / "sudo").chmod(0o755)
    device = tmp_path / "net" / "enp5s0" / "device"
    for folder, value in (("", 5), ("virtfn0/", 70)):
        counted = device / f"{folder}infiniband/mlx5_{value}/ports/1/hw_counters"
        counted.mkdir(parents=True)
        (counted / "out_of_sequence").write_text(f"{value}\n")
    for driver in ("virtfn0/driver", "virtfn1/driver", "virtfn2"):
        (device / driver).mkdir(parents=True)
    source = CounterSource(GPU01.endpoint, "linux", ("enp5s0",))
    script = counters_script(["enp5s0"]).replace("/sys/class/net", str(tmp_path / "net"))
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        capture_output=True, text=True, timeout=10, check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert parse_ethtool(done.stdout, source)["enp5s0"] == {
        "rx_prio3_bytes": 12,
        "out_of_sequence": 5,
        "vf.mlx5_70.out_of_sequence": 70,
        "vfs_hidden": 1,
    }


def test_one_reading_is_no_measurement() -> None:
    """A sum since boot is not what the probe sent."""
    seen = at("gpu01", "enp5s0", tx_prio3_bytes=10**12)
    for before, after in ((Snapshot({}), seen), (seen, Snapshot({})), (Snapshot({}), Snapshot({}))):
        measured = measure_hop(hop("sender_nic"), before, after)
        assert (measured.status, measured.total_bytes) == ("not_observed", 0)


def test_a_device_that_was_lost_once_is_unreachable() -> None:
    seen = at("gpu01", "enp5s0", tx_prio3_bytes=1)
    lost = Snapshot({}, {"gpu01": "gpu01 (nvidia@127.41.0.11:2222) is not reachable\n  more"})
    for before, after in ((lost, seen), (seen, lost)):
        measured = measure_hop(hop("sender_nic"), before, after)
        assert measured.status == "unreachable"
        assert measured.detail == "gpu01 (nvidia@127.41.0.11:2222) is not reachable"


def test_all_devices_are_read_and_one_that_fails_hides_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, str]] = []

    async def run(
        endpoint: Endpoint, secrets: dict[str, str], command: str, *, deadline_s: float
    ) -> HostAnswer:
        del deadline_s
        asked.append((endpoint.device, secrets[endpoint.private_key_secret or ""]))
        if endpoint.device == "gpu02":
            raise UnreachableError(f"{endpoint.where} is not reachable")
        assert "ethtool -S" in command
        assert "nics='enp5s0 enp132s0'" in command
        return HostAnswer(TWO, "", 0)

    def read(
        endpoint: Endpoint,
        system: str,
        ports: tuple[str, ...],
        secrets: dict[str, str],
        *,
        bfd: bool | None,
    ) -> tuple[dict[str, PortCounters], None]:
        asked.append((endpoint.device, secrets[endpoint.password_secret or ""]))
        assert (system, bfd) == ("onyx", None)
        return {name: port(1, 2) for name in ports}, None

    monkeypatch.setattr(counters, "run_on_host", run)
    monkeypatch.setattr(counters, "read_counted", read)
    secrets = {"ssh_private_key": "key", "switch_password": "word"}
    snapshot = asyncio.run(read_snapshot(SOURCES, secrets))
    assert sorted(asked) == [("gpu01", "key"), ("gpu02", "key"), ("leaf-01", "word")]
    assert list(snapshot.unreachable) == ["gpu02"]
    assert {device for device, _ in snapshot.counters} == {"leaf-01", "gpu01"}
    assert len(snapshot.counters) == 6


def test_our_own_mistakes_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*arguments: object, **more: object) -> HostAnswer:
        del arguments, more
        raise ValueError("a bug")

    monkeypatch.setattr(counters, "run_on_host", run)
    with pytest.raises(ValueError, match="a bug"):
        asyncio.run(read_snapshot([GPU01], {}))


def test_what_full_queues_threw_away_is_lost_there() -> None:
    def seen(drops: int) -> Snapshot:
        sent = {3: PriorityCounters(None, 90, drops), 0: PriorityCounters(None, 9, 1)}
        flat = flatten_port(PortCounters(sent, ecn_marked=None, rx_discards=2))
        return Snapshot({("leaf-01", "Ethernet1/1"): flat})

    egress = measure_hop(hop("switch_egress", "leaf-01", "Ethernet1/1"), seen(4), seen(11))
    assert egress.discards == 7
