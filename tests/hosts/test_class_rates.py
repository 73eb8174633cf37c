"""Rate limits of a card's traffic classes that mlnx_qos can set again, and those that it cannot."""

from __future__ import annotations

from pathlib import Path

from tests.hosts.folder_host import FolderHost, folder_host

PCI = "0000:05:00.0"
RATE = f"nic.{PCI}.tc3_rate"
SHOWN = """
echo "$*" >>$F/calls
case "$*" in *--ratelimit*) read one three <$F/limits; echo $one 0.0 >$F/limits ;; esac
read one three <$F/limits
word() { case $1 in 0.0) echo unlimited ;; *) echo "$1 Gbps" ;; esac; }
printf 'DCBX mode: OS controlled\\nPriority trust state: pcp\\n'
for tc in 0 1 2 3 4 5 6 7; do
  case $tc in 1) rate=$one ;; 3) rate=$three ;; *) rate=0.0 ;; esac
  printf 'tc: %s ratelimit: %s, tsa: vendor\\n\\t priority:  %s\\n' $tc "$(word $rate)" $tc
done
"""


def host_with(tmp_path: Path, limits: str) -> FolderHost:
    """A card whose classes 1 and 3 have these limits."""
    host = folder_host(tmp_path)
    host.card(PCI, "enp5s0", vfs=0)
    host.tool("mlnx_qos", SHOWN)
    host.write("limits", f"{limits}\n")
    return host


def test_a_limit_of_a_part_of_a_gbit_is_refused_before_it_is_lost(tmp_path: Path) -> None:
    host = host_with(tmp_path, "0.5 10.0")
    assert host.observe(f"{RATE}=unlimited")[RATE] == "10.0"
    done = host.run("converge", f"{RATE}=unlimited")
    assert done.returncode == 1
    assert "traffic class 1 of enp5s0 has a limit of 0.5 Gbit/s" in done.stderr
    assert "mlnx_qos -i enp5s0 -r 0,0,0,0,0,0,0,0" in done.stderr
    assert "--ratelimit" not in (host.root / "calls").read_text()


def test_limits_of_other_classes_are_set_again(tmp_path: Path) -> None:
    host = host_with(tmp_path, "40.0 10.0")
    assert host.report("converge", f"{RATE}=unlimited")["changed"] == [RATE]
    assert "--ratelimit 0,40,0,0,0,0,0,0" in (host.root / "calls").read_text()
    assert host.baseline[RATE] == "10.0"
