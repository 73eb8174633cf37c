"""A lab host over real SSH: isolation, sysfs semantics, systemd, sudo, reboot, faults."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import cast

import pytest
from pydantic import TypeAdapter

from components.acceptance.acceptance_plan import CounterSource
from components.acceptance.collect.counters import counters_script, parse_ethtool
from components.remote.step import Endpoint
from lab.hosts.rootfs import tool_interpreter
from tests.lab_hosts.conftest import PORT, SmallLab

pytestmark = pytest.mark.lab

VIEWS = TypeAdapter(list[dict[str, object]])
NUMVFS = "/sys/class/net/enp5s0/device/sriov_numvfs"


@pytest.fixture(autouse=True)
def clean_gpu01(lab: SmallLab) -> None:
    lab.out("gpu01", f"[ $(cat {NUMVFS}) = 0 ] || echo 0 > {NUMVFS}")


def test_sysctl_inside_does_not_move_the_outer_value(lab: SmallLab) -> None:
    outer = Path("/proc/sys/vm/swappiness").read_text()
    lab.out("gpu01", "echo 17 > /proc/sys/vm/swappiness")
    assert lab.out("gpu01", "sysctl -n vm.swappiness") == "17\n"
    assert Path("/proc/sys/vm/swappiness").read_text() == outer
    assert outer.strip() != "17"


def test_root_inside_cannot_write_the_outer_machine(lab: SmallLab) -> None:
    for target in ("/usr/lib/x", "/usr/bin/x", f"{Path(__file__).parent}/x"):
        assert lab.root_sh("gpu01", f": > {target}").returncode != 0
    assert "CapEff:\t00000000000000eb" in lab.out("gpu01", "cat /proc/self/status")


def test_hostname_is_the_hosts_own(lab: SmallLab) -> None:
    outer = Path("/proc/sys/kernel/hostname").read_text()
    assert lab.out("gpu01", "hostname railyard-x; uname -n; cat /proc/sys/kernel/hostname") == (
        "railyard-x\nrailyard-x\n"
    )
    lab.out("gpu01", "hostname gpu01")
    assert Path("/proc/sys/kernel/hostname").read_text() == outer


@pytest.mark.parametrize(
    ("value", "reason"),
    [("4", "Device or resource busy"), ("17", "Numerical result out of range"),
     ("x", "Invalid argument")],
)  # fmt: skip
def test_sriov_numvfs_refuses_as_the_kernel(lab: SmallLab, value: str, reason: str) -> None:
    lab.out("gpu01", f"echo 8 > {NUMVFS}")
    done = lab.root_sh("gpu01", f"echo {value} | tee {NUMVFS}")
    assert reason in done.stderr
    assert lab.out("gpu01", f"cat {NUMVFS}") == "8\n"


def test_vfs_appear_at_once_with_device_ids(lab: SmallLab) -> None:
    script = f"""
        echo 8 > {NUMVFS}
        cd /sys/class/net/enp5s0/device
        ls -d virtfn* | wc -l; ls virtfn7/net; cat virtfn7/device
        readlink -f virtfn7 | sed 's,.*/,,'
    """
    assert lab.out("gpu01", script).split() == ["8", "enp5s0v7", "0x1018", "0000:05:01.0"]


def test_vfs_are_gone_at_once_also_where_they_were_just_looked_at(lab: SmallLab) -> None:
    script = f"""
        cd /sys/class/net/enp5s0/device
        for round in 1 2 3 4; do
            echo 8 > {NUMVFS}
            there=$(readlink -f virtfn7)
            [ -d $there/net/enp5s0v7 ] && echo there
            echo 0 > {NUMVFS}
            [ -e $there/net/enp5s0v7 ] || [ -e $there ] || [ -L virtfn7 ] || echo gone
        done
    """
    assert lab.out("gpu01", script).split() == ["there", "gone"] * 4


def test_read_only_attribute_refuses_root(lab: SmallLab) -> None:
    done = lab.root_sh("gpu01", "echo 5 > /sys/class/net/enp5s0/device/sriov_totalvfs")
    assert done.returncode != 0
    assert "Permission denied" in done.stderr


def test_mtu_above_the_drivers_limit_is_refused(lab: SmallLab) -> None:
    lab.out("gpu01", "echo 9000 > /sys/class/net/enp5s0/mtu")
    assert lab.root_sh("gpu01", "ip link set dev enp5s0 mtu 20000").returncode == 2
    links = json.loads(lab.out("gpu01", "ip -j link show enp5s0"))
    assert links[0]["mtu"] == 9000


def test_qos_tools_move_the_nic_view(lab: SmallLab) -> None:
    lab.out("gpu01", "mlnx_qos -i enp5s0 --trust dscp --pfc 0,0,0,1,0,0,0,0")
    lab.out("gpu01", "/usr/bin/mlnx_qos -i enp5s0 --dscp2prio set,26,3")
    lab.out("gpu01", "echo 0 > /sys/class/net/enp5s0/ecn/roce_rp/enable/5")
    view = VIEWS.validate_python(lab.ask(op="nics", host="gpu01")["nics"])[0]
    assert (view["trust"], view["pfc_priorities"]) == ("dscp", [3])
    assert view["ecn_priorities"] == [0, 1, 2, 3, 4, 6, 7]


def test_plain_user_may_not_change_the_machine(lab: SmallLab) -> None:
    assert lab.ssh("gpu01", f"echo 2 > {NUMVFS}").returncode != 0
    assert "authentication required" in lab.ssh("gpu01", "systemctl stop ssh").stderr
    assert lab.ssh("gpu01", "cat /etc/shadow").returncode != 0


def test_exit_status_and_streams_pass(lab: SmallLab) -> None:
    done = lab.ssh("gpu01", "cat; echo oops >&2; exit 7", "in")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in", "oops\n")
    assert lab.ssh("gpu01", "sudo -n sh -c 'exit 9'").returncode == 9


def test_timeout_ends_a_command_below_sudo(lab: SmallLab) -> None:
    done = lab.ssh("gpu01", "timeout -k 5 1 sudo -n sleep 98765; echo $?")
    assert done.stdout.strip() == "124"
    assert lab.root_sh("gpu01", "pgrep -f 'sleep 9876[5]'").returncode == 1


def test_client_going_away_does_not_end_the_script(lab: SmallLab) -> None:
    command = "sudo -n sh -c 'echo go; exec >/dev/null; sleep 1; echo done > /root/survived'"
    client = subprocess.Popen(
        [*lab.ssh_arguments("gpu01"), command], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert client.stdout is not None
    assert client.stdout.readline() == b"go\n"
    client.kill()
    client.wait()
    client.stdout.close()
    wait = "for i in $(seq 50); do [ -e /root/survived ] && break; sleep 0.1; done"
    assert lab.out("gpu01", f"{wait}; cat /root/survived; rm /root/survived") == "done\n"


def test_set_env_is_refused(lab: SmallLab) -> None:
    arguments = [*lab.ssh_arguments("gpu01"), "-o", "SetEnv=RAILYARD_X=1"]
    done = subprocess.run(
        [*arguments, "echo ${RAILYARD_X:-unset}"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.stdout == "unset\n"


def test_sudo_policy_file_decides(lab: SmallLab) -> None:
    lab.out("gpu02", "mv /etc/sudoers.d/90-nvidia /root/")
    lab_sudo = lab.ssh("gpu02", "sudo -n true")
    assert (lab_sudo.returncode, lab_sudo.stderr) == (1, "sudo: a password is required\n")
    policy = lab.root / "hosts/gpu02/etc/sudoers.d/90-nvidia"
    policy.write_text("nvidia ALL=(root) NOPASSWD: /usr/bin/mv\n")
    assert lab.ssh("gpu02", "sudo -n mv /root/90-nvidia /etc/sudoers.d/").returncode == 0
    assert lab.ssh("gpu02", "sudo -n true").returncode == 0


UNIT = """cat > /etc/systemd/system/vfs.service <<'X'
[Unit]
Description=VFs
After=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
Environment=COUNT=4 "WORD=a b"
ExecStart=/bin/sh -c 'echo ${COUNT} > /sys/class/net/enp132s0/device/sriov_numvfs'
ExecStart=/bin/sh -c 'echo "ran on %H with $WORD"'
[Install]
WantedBy=multi-user.target
X
systemctl daemon-reload
"""


def test_reboot_loses_vfs_and_the_unit_restores_them(lab: SmallLab) -> None:
    lab.out("gpu02", UNIT + "systemctl enable --now vfs.service")
    lab.out("gpu02", "echo 8 > /sys/class/net/enp5s0/device/sriov_numvfs; echo x > /root/kept")
    before = lab.out("gpu02", "cat /proc/sys/kernel/random/boot_id")
    lab.ask(op="reboot", device="gpu02")
    after = lab.out(
        "gpu02",
        """cat /proc/sys/kernel/random/boot_id
        cat /sys/class/net/enp5s0/device/sriov_numvfs /sys/class/net/enp132s0/device/sriov_numvfs
        systemctl is-active vfs; cat /root/kept; journalctl -u vfs -o cat | tail -n 1""",
    ).splitlines()
    assert after[0] != before.strip()
    assert after[1:] == ["0", "4", "active", "x", "ran on gpu02 with a b"]
    lab.out("gpu02", "systemctl disable --now vfs; rm /etc/systemd/system/vfs.service /root/kept")


def test_reboot_from_inside_gives_a_new_boot_id(lab: SmallLab) -> None:
    before = lab.out("gpu02", "cat /proc/sys/kernel/random/boot_id").strip()
    lab.ssh("gpu02", "sudo -n systemctl reboot")
    for _ in range(100):
        done = lab.ssh("gpu02", "cat /proc/sys/kernel/random/boot_id")
        if done.returncode == 0 and done.stdout.strip() != before:
            return
    pytest.fail("the host did not come back with a new boot id")


def test_service_restarts_and_ends_with_its_unit(lab: SmallLab) -> None:
    script = """cat > /etc/systemd/system/loop.service <<'X'
[Service]
ExecStart=/bin/sh -c 'sleep 4242 & wait'
Restart=always
LimitMEMLOCK=64K
X
systemctl daemon-reload; systemctl start loop
kill -9 $(systemctl show -p MainPID --value loop)
for i in $(seq 50); do
  [ "$(systemctl show -p NRestarts --value loop)" = 1 ] && systemctl -q is-active loop && break
  sleep 0.1
done
systemctl is-active loop; systemctl show -p LimitMEMLOCK loop
awk '/locked/ {print $4}' /proc/$(systemctl show -p MainPID --value loop)/limits
systemctl stop loop; systemctl is-active loop; pgrep -f 'sleep 424[2]'
rm /etc/systemd/system/loop.service; systemctl daemon-reload"""
    assert lab.out("gpu01", script).splitlines() == [
        "active", "LimitMEMLOCK=65536", "65536",
        "inactive",
    ]  # fmt: skip


def test_notify_service_is_up_when_it_says_so(lab: SmallLab) -> None:
    script = """cat > /root/ready.py <<'X'
import os, socket, time
time.sleep(0.5)
open("/root/was-late", "w").close()
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
time.sleep(600)
X
cat > /etc/systemd/system/slow.service <<'X'
[Service]
Type=notify
ExecStart=PYTHON /root/ready.py
X
systemctl start slow; ls /root/was-late; systemctl is-active slow; systemctl stop slow
printf '[Service]\\nType=notify\\nExecStart=/bin/false\\n' > /etc/systemd/system/slow.service
systemctl daemon-reload; systemctl start slow; echo $?; systemctl show -p Result slow
rm /root/ready.py /root/was-late /etc/systemd/system/slow.service; systemctl daemon-reload"""
    script = script.replace("PYTHON", str(tool_interpreter()))
    assert lab.out("gpu01", script).splitlines() == [
        "/root/was-late", "active", "1", "Result=protocol",
    ]  # fmt: skip


def test_failing_unit_says_so(lab: SmallLab) -> None:
    script = """cat > /etc/systemd/system/bad.service <<'X'
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo it broke; exit 3'
X
systemctl start bad; echo $?; systemctl is-failed bad; systemctl show -p ExecMainStatus bad
journalctl -u bad -o cat | head -n 1; systemctl reset-failed bad; systemctl is-active bad
rm /etc/systemd/system/bad.service; systemctl daemon-reload"""
    done = lab.root_sh("gpu01", script)
    assert done.stdout.splitlines() == ["1", "failed", "ExecMainStatus=3", "it broke", "inactive"]
    assert "Job for bad.service failed" in done.stderr


def test_edited_unit_needs_a_daemon_reload(lab: SmallLab) -> None:
    script = """u=/etc/systemd/system/old.service
printf '[Service]\\nType=oneshot\\nExecStart=/bin/echo one\\n' > $u
systemctl start old
printf '[Service]\\nType=oneshot\\nExecStart=/bin/echo two\\n' > $u
systemctl start old; systemctl daemon-reload; systemctl start old
journalctl -u old -o cat; rm $u; systemctl daemon-reload"""
    done = lab.root_sh("gpu01", script)
    assert done.stdout.split() == ["one", "one", "two"]
    assert "changed on disk" in done.stderr


def test_transient_timer_runs_later(lab: SmallLab) -> None:
    script = """systemd-run --unit=later --on-active=0.2 /bin/sh -c 'echo ran > /root/later'
for i in $(seq 50); do [ -e /root/later ] && break; sleep 0.1; done
cat /root/later; rm /root/later"""
    assert lab.out("gpu01", script) == "ran\n"


def test_accounts_are_the_hosts_own(lab: SmallLab) -> None:
    script = "useradd -m -u 1010 trainer; getent passwd trainer | cut -d: -f3; userdel -r trainer"
    assert lab.out("gpu01", script) == "1010\n"
    assert "trainer" not in Path("/etc/passwd").read_text()


def test_unknown_command_of_a_tool_is_recorded(lab: SmallLab) -> None:
    assert "unknown" in lab.ssh("gpu01", "ip frobnicate").stderr


def test_faults(lab: SmallLab) -> None:
    lab.out("gpu01", f"echo 8 > {NUMVFS}")
    lab.ask(op="fault", device="gpu01", args=["vfs-lost"])
    assert lab.out("gpu01", f"cat {NUMVFS}") == "0\n"
    lab.ask(op="fault", device="gpu01", args=["link-down", "enp5s0", "on"])
    assert lab.out("gpu01", "cat /sys/class/net/enp5s0/operstate") == "down\n"
    lab.ask(op="fault", device="gpu01", args=["link-down", "enp5s0", "off"])
    lab.ask(op="fault", device="gpu01", args=["ssh-refused", "on"])
    refused = lab.ssh("gpu01", "true")
    assert refused.returncode == 255
    assert "refused" in refused.stderr
    lab.ask(op="fault", device="gpu01", args=["ssh-refused", "off"])
    assert lab.ssh("gpu01", "true").returncode == 0


def test_snapshot_is_byte_for_byte_after_undoing_by_hand(lab: SmallLab) -> None:
    before = json.dumps(lab.ask(op="snapshot"), sort_keys=True)
    lab.out("gpu01", f"echo 2 > {NUMVFS}; echo x > /etc/sysctl.d/9.conf; modprobe nvidia_peermem")
    assert json.dumps(lab.ask(op="snapshot"), sort_keys=True) != before
    lab.out("gpu01", f"echo 0 > {NUMVFS}; rm /etc/sysctl.d/9.conf; modprobe -r nvidia_peermem")
    assert json.dumps(lab.ask(op="snapshot"), sort_keys=True) == before


def test_mlxconfig_takes_effect_at_the_next_boot(lab: SmallLab) -> None:
    query = "mlxconfig -d 05:00.0 -e query NUM_OF_VFS | tail -n 1"
    lab.out("gpu02", "mlxconfig -d 0000:05:00.0 -y set NUM_OF_VFS=4")
    assert lab.out("gpu02", query).split() == ["*", "NUM_OF_VFS", "16", "16", "4"]
    lab.ask(op="reboot", device="gpu02")
    assert lab.out("gpu02", query).split() == ["*", "NUM_OF_VFS", "16", "4", "4"]
    assert lab.out("gpu02", "cat /sys/class/net/enp5s0/device/sriov_totalvfs") == "4\n"


def test_a_command_that_begins_to_read_late_gets_all_of_its_input(lab: SmallLab) -> None:
    """More than a pipe and the server's buffers hold: Ansible sends its modules this way."""
    text = "x" * 300_000
    for command in ("sleep 0.3; wc -c", "sudo -n sh -c 'sleep 0.3; wc -c'"):
        done = lab.ssh("gpu01", command, text)
        assert (done.stdout.strip(), done.stderr) == (str(len(text)), "")


def test_connections_and_processes_are_counted(lab: SmallLab) -> None:
    def counted() -> dict[str, int]:
        answer = cast("dict[str, dict[str, int]]", lab.ask(op="counted")["counted"])
        return answer["gpu01"]

    before = counted()
    assert counted() == before  # counting does not count itself
    assert lab.ssh("gpu01", "/bin/true; /bin/true").returncode == 0
    after = counted()
    assert after["connections"] - before["connections"] == 1
    assert after["sessions"] - before["sessions"] == 1
    assert 2 <= after["processes"] - before["processes"] <= 6


def test_acceptance_reads_what_a_nic_and_its_vfs_count(lab: SmallLab) -> None:
    """Each function has its own counters of queue pairs; the port has those of the link."""
    lab.out("gpu01", f"echo 2 > {NUMVFS}")
    text = lab.out("gpu01", counters_script(["enp5s0"]))
    source = CounterSource(
        Endpoint("gpu01", "host", "127.0.0.1", PORT, "nvidia", ""), "linux", ("enp5s0",)
    )
    found = parse_ethtool(text, source)["enp5s0"]
    own = {name for name in found if name.startswith("vf.")}
    assert {name.rpartition(".")[2] for name in own} == {
        "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "roce_adp_retrans",
    }  # fmt: skip
    assert len(own) == 2 * 4
    assert {"rx_crc_errors_phy", "link_down_events_phy", "np_cnp_sent"} < {*found}
    assert found["vfs_hidden"] == 0
