"""The counters that acceptance reads, by name: their meaning, and how each driver spells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.fabric.systems.base import CounterWay

KINDS: Final = {
    # The link went down; a wrong checksum; errors beyond FEC; pauses without end.
    r"link_down_events(_phy)?|link_downed|tx_pause_storm_error_events": "errors",
    r"rx_crc_errors(_phy|\.nic)|rx_fcs_err_frames|frames_rx_bad_fcs": "errors",
    r"rx_icrc_encapsulated|rx_(pcs_)?symbol_err(_phy)?|symbol_error": "errors",
    r"rx_fec_uncorrectable_blocks|fcsErrors|symbolErrors": "errors",
    # The receiver reported a missing packet; an acknowledgement came too late.
    r"packet_seq_err|implied_nak_seq_err|seq_err_naks_rcvd|local_ack_timeout_err": "errors",
    r"roce_adp_retrans(_to)?|duplicate_request|to_retransmits|dup_req": "retransmissions",
    r"out_of_sequence|oos_drop_count": "out_of_sequence",
    r"ecn_marked|np_ecn_marked_roce_packets": "ecn_marked",
    r"rx_out_of_buffer|[rt]x_discards(_phy)?|[rt]x_stat_discard|rx_dropped\.nic": "discards",
    r"frames_rx_dropped|tx_tc\d_drops|port_rcv_errors|port_xmit_discards": "discards",
    # The discards again, by priority.
    r"rx_prio\d_(buf_|cong_)?discards?|rx_discard_packets_cos\d": "of_priority",
    # DCQCN's reactions to marks; a receiver without a buffer; PCIe that delayed the NIC.
    r"np_cnp_sent|rp_cnp_handled|roce_slow_restart|rx_prio\d_marked|rnr_nak_retry_err": "noted",
    r"outbound_pci_stalled_wr_events|tx_pause_storm_warning_events|link_error_recovery": "noted",
}
"""The meaning of each counter other than bytes and pauses, mlx5's names first; `errors` fail it.

Source: Linux, mlx5/counters.rst at 16f448d47a86; infiniband/hw/mlx5/counters.c at 10d4de418953,
hw/bnxt_re/hw_counters.c at 063975feedb1, core/sysfs.c; bnxt_ethtool.c, ice_ethtool.c, and
ionic_stats.c at 0eaed89c18ae.
"""
RDMA: Final = (
    "out_of_sequence packet_seq_err implied_nak_seq_err local_ack_timeout_err duplicate_request "
    "rnr_nak_retry_err roce_adp_retrans roce_adp_retrans_to roce_slow_restart np_cnp_sent "
    "rp_cnp_handled np_ecn_marked_roce_packets rx_icrc_encapsulated "
    "oos_drop_count seq_err_naks_rcvd to_retransmits dup_req"
)
"""In `hw_counters` of an RDMA device; ethtool does not show them. A VF has its own: mlx5 asks for
the counter set of the function. The host cannot read the files of a device that is in a pod's
network namespace."""
ENDS: Final = {
    "symbol_error": 2**16 - 1, "port_rcv_errors": 2**16 - 1, "port_xmit_discards": 2**16 - 1,
    "link_downed": 2**8 - 1, "link_error_recovery": 2**8 - 1,
    "port_xmit_data": 2**32 - 1, "port_rcv_data": 2**32 - 1,
}  # fmt: skip
"""Values at which InfiniBand's PortCounters stop until they are cleared."""

SHOW: Final = """show() {
  for name in $3; do
    if read -r value <"$1/$name"; then echo "$2$name: $value"; fi
  done 2>/dev/null
}
"""
READ: Final = """echo '=== {name}'
sudo -n ethtool -S {name}
device=/sys/class/net/{name}/device hidden=0
for port in "$device"/infiniband/*/ports/1; do show "$port/hw_counters" '' '{rdma}'; done
for vf in "$device"/virtfn*; do
  [ -e "$vf/driver" ] || continue
  set -- "$vf"/infiniband/*/ports/1
  [ -d "$1" ] || {{ hidden=$((hidden + 1)); continue; }}
  own=${{1%/ports/1}}
  show "$1/hw_counters" "vf.${{own##*/}}." '{rdma}'
done
echo "vfs_hidden: $hidden"
"""
READ_ADAPTERS: Final = f"""{SHOW}for device in /sys/class/infiniband/*; do
  port=$device/ports/1
  [ "$(cat "$port/link_layer" 2>/dev/null)" = InfiniBand ] || continue
  case $(cat "$port/state") in 4:*) ;; *) continue ;; esac
  echo "=== ${{device##*/}}"
  show "$port/counters" '' '{" ".join(ENDS)}'
  show "$port/hw_counters" '' '{RDMA}'
done
"""
OF_WAY: Final[Mapping[CounterWay, str]] = {
    "rx": r"rx_(prio\d_)?bytes", "tx": r"tx_tc\d_bytes", "marked": "ecn_marked",
    "discards": r"rx_discards|tx_tc\d_drops", "pauses": r"[rt]x_prio\d_pause",
    "storms": r"tx_tc\d_storms", "errors": "fcsErrors|symbolErrors",
}  # fmt: skip
"""A switch port's counters, by the answer that contains them."""
HIDDEN: Final = "vfs_hidden"
"""The number of VFs whose RDMA device is in a pod; it is not a sum."""
NIC_NAMES: Final = (
    ("mlx5_core", r"{}_prio(\d)_bytes", "-"),
    ("bnxt_en", r"{}_bytes_pri(\d)", "{}_bytes"),
    ("ice", "-", r"{}_bytes\.nic"),
    ("ionic", "-", "octets_{}_(all|total)"),
)
"""Driver, its bytes of each priority, and all bytes of the port if they are not the sum of the
first (sources: `KINDS`). bnxt_en gives each priority the bytes of its whole queue."""
WAYS: Final = {"sender_nic": "tx", "receiver_nic": "rx"}
PAUSES: Final = r"{0}_prio(\d)_pause|{0}_pfc_ena_frames_pri(\d)|{0}_priority_(\d)_xoff\.nic"
DATA_NAMES: Final = {"sender_nic": "port_xmit_data", "receiver_nic": "port_rcv_data"}
NAMES: Final = "|".join(
    pattern.format("[rt]x") if "{" in pattern else pattern
    for pattern in (
        *KINDS, *DATA_NAMES.values(), *OF_WAY.values(), HIDDEN, PAUSES,
        *(pattern for _, *both in NIC_NAMES for pattern in both),
    )
)  # fmt: skip
"""The counters that acceptance judges. Others are left out: some are no sums, and may decrease."""
