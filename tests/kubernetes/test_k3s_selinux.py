"""K3s on hosts with SELinux: its policy comes before it, and goes with it if it came with it.

The host is a folder with tools that keep state. What they do and say is from k3s-io/k3s
`install.sh` (at 0136cf25, and v1.28.3 in issue 8810) and k3s-io/k3s-selinux v1.6.stable.1,
`policy/centos9`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from components.kubernetes.planes.node_files import kubernetes_tool
from tests.hosts.fake_host import Done, run, tool

ROOT_PATH = ":/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin"
FOLDERS = ("/sys/", "/usr/local/bin", "/usr/share/", "/etc/", "/var/lib/", "/run/")
"""What the scripts read and write on a host; here it lies below the folder of the tools."""
NOT_FOUND = "Failed to find the k3s-selinux policy, please install:"
RECORD = "var/lib/railyard/test/k3s-selinux"
POLICY = "usr/share/selinux/packages/k3s.pp"

DNF = """
say() { echo "$*" >>"$FAKE/dnf.log"; }
say "$*"
umask >>"$FAKE/dnf.umask"
[ ! -e "$FAKE/dnf.fails" ] || { cat "$FAKE/dnf.fails" >&2; exit 1; }
case $2 in
  install)
    grep -q 'K3s policy' "$3" || { echo "Can not load RPM file: $3." >&2; exit 1; }
    grep -q container-selinux "$FAKE/rpms" || echo container-selinux dependency >>"$FAKE/rpms"
    echo k3s-selinux user >>"$FAKE/rpms"
    mkdir -p "$FAKE/usr/share/selinux/packages"
    cp "$3" "$FAKE/usr/share/selinux/packages/k3s.pp" ;;
  -y | remove) # with what came along and nothing else needs: clean_requirements_on_remove
    grep -v -e ^k3s-selinux -e ' dependency$' "$FAKE/rpms" >"$FAKE/rpms.new"
    mv "$FAKE/rpms.new" "$FAKE/rpms"
    rm -f "$FAKE/usr/share/selinux/packages/k3s.pp" ;;
esac
"""
RPM = 'grep -q "^$2 " "$FAKE/rpms" || { echo "package $2 is not installed"; exit 1; }'
RESTORECON = """
label=bin_t
[ ! -e "$FAKE/usr/share/selinux/packages/k3s.pp" ] || label=container_runtime_exec_t
echo "$label" >"$FAKE/label${1##*/bin/}"
"""
SYSTEMCTL = """
case $1 in
  is-enabled) [ -e "$FAKE/enabled" ] && echo enabled ;;
  enable) : >"$FAKE/enabled" ;;
  is-active) [ -e "$FAKE/active" ] ;;
  restart) : >"$FAKE/active" ;;
esac
"""
K3S = """#!/bin/sh
case $* in
  --version) echo 'k3s version v1.36.3+k3s1 (0123abcd)' ;;
  *'get --raw /readyz'*) printf ok ;;
  *'get node'*) printf True ;;
esac
"""
INSTALL = """#!/bin/sh
# INSTALL_K3S_SKIP_DOWNLOAD=true: no release installs the policy then, and older ones ask for it
policy=$FAKE/usr/share/selinux/packages/k3s.pp
if [ "$(cat "$FAKE/generation")" = v1.28.3 ] && [ ! -f "$policy" ]; then
  echo '[INFO]  Skipping installation of SELinux RPM'
  echo '[ERROR]  Failed to find the k3s-selinux policy, please install:' >&2
  exit 1
fi
mkdir -p "$FAKE/etc/systemd/system"
echo unit >"$FAKE/etc/systemd/system/k3s-agent.service"
cat >"$FAKE/usr/local/bin/k3s-agent-uninstall.sh" <<'EOF'
#!/bin/sh
set -x
remove_uninstall() {
    rm -f $FAKE/usr/local/bin/k3s-agent-uninstall.sh
}
trap remove_uninstall EXIT
rm -f $FAKE/etc/systemd/system/k3s-agent.service
rm -f $FAKE/usr/local/bin/k3s
if type yum >/dev/null 2>&1; then
    yum remove -y k3s-selinux
    rm -f $FAKE/etc/yum.repos.d/rancher-k3s-common*.repo
elif type zypper >/dev/null 2>&1; then
    zypper remove -y k3s-selinux
fi
EOF
chmod 755 "$FAKE/usr/local/bin/k3s-agent-uninstall.sh"
"""


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def rocky(tmp_path: Path) -> Path:
    """A worker with Rocky 9 as installed: SELinux is enforcing, and nothing of K3s is there."""
    fake = tmp_path / "host"
    for folder in ("sys/fs/selinux", "usr/local/bin", "etc/yum.repos.d", "run", "var/lib", "opt"):
        (fake / folder).mkdir(parents=True)
    (fake / "sys/fs/selinux/enforce").write_text("1")
    (fake / "rpms").write_text("podman user\n")
    (fake / "generation").write_text("v1.36.3\n")
    (fake / "opt/k3s").write_text(K3S)
    (fake / "opt/install.sh").write_text(INSTALL)
    (fake / "opt/k3s-selinux.rpm").write_text("K3s policy 1.6\n")
    for name, text in {"dnf": DNF, "rpm": RPM, "restorecon": RESTORECON}.items():
        tool(fake, name, text)
    tool(fake, "yum", 'exec dnf -y "$@"')  # which is a link to dnf, with its options after the verb
    tool(fake, "systemctl", SYSTEMCTL)
    return fake


def call(fake: Path, verb: str, stdin: str) -> Done:
    text = kubernetes_tool().text.replace(ROOT_PATH, ":/usr/local/bin")
    for folder in FOLDERS:
        text = text.replace(folder, f"{fake}{folder}")
    return run(fake, f"set -- {verb}\n{text}", stdin)


def install(fake: Path, *, policy: bool = True) -> Done:
    files = {"binary": "k3s", "install_script": "install.sh"}
    if policy:
        files["selinux_policy"] = "k3s-selinux.rpm"
    lines = {"role": "agent", "node": "gpu01", "stack": "test", "version": "v1.36.3+k3s1"}
    for key, name in files.items():
        path = fake / "opt" / name
        lines |= {key: str(path), f"{key}_sha256": digest_of(path)}
    lines["config.yaml.01"] = 'node-name: "gpu01"'
    return call(fake, "k3s_install", "".join(f"{key}={text}\n" for key, text in lines.items()))


def uninstall(fake: Path) -> Done:
    return call(fake, "k3s_undo", "role=agent\nstack=test\n")


def changed(done: Done) -> list[str]:
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)["changed"]
    return found


def packages(fake: Path) -> list[str]:
    return (fake / "rpms").read_text().splitlines()


def before(fake: Path, *rpms: str) -> None:
    """Packages that the host has before us; K3s' policy among them is then there too."""
    (fake / "rpms").write_text("".join(f"{each}\n" for each in ("podman user", *rpms)))
    if any(each.startswith("k3s-selinux") for each in rpms):
        (fake / POLICY).parent.mkdir(parents=True)
        (fake / POLICY).write_text("K3s policy 1.5\n")


@pytest.mark.parametrize("generation", ["v1.28.3", "v1.36.3"])
def test_the_policy_is_there_before_k3s_and_k3s_gets_its_label(
    rocky: Path, generation: str
) -> None:
    (rocky / "generation").write_text(f"{generation}\n")
    assert changed(install(rocky)) == ["selinux_policy", "config.yaml", "k3s", "enabled", "service"]
    assert packages(rocky) == ["podman user", "container-selinux dependency", "k3s-selinux user"]
    assert (rocky / "labelk3s").read_text() == "container_runtime_exec_t\n"
    assert (rocky / "dnf.umask").read_text() == "0022\n", "its scriptlets make K3s' folders"
    assert changed(install(rocky)) == []
    assert len((rocky / "dnf.log").read_text().splitlines()) == 1
    assert changed(uninstall(rocky)) == ["k3s"]
    assert packages(rocky) == ["podman user"]
    assert not (rocky / "var/lib/railyard").exists()


def test_without_the_policy_an_older_release_ends_and_says_why(rocky: Path) -> None:
    (rocky / "generation").write_text("v1.28.3\n")
    done = install(rocky, policy=False)
    assert done.returncode == 1
    assert NOT_FOUND in done.stderr
    assert not (rocky / "dnf.log").exists()


def test_a_policy_that_was_there_stays_and_so_does_what_it_needs(rocky: Path) -> None:
    before(rocky, "container-selinux user", "k3s-selinux user")
    repository = rocky / "etc/yum.repos.d/rancher-k3s-common.repo"
    repository.write_text("[rancher-k3s-common-stable]\n")
    assert "selinux_policy" not in changed(install(rocky))
    assert (rocky / "labelk3s").read_text() == "container_runtime_exec_t\n"
    assert changed(uninstall(rocky)) == ["k3s"]
    assert packages(rocky) == ["podman user", "container-selinux user", "k3s-selinux user"]
    assert (rocky / POLICY).read_text() == "K3s policy 1.5\n"
    assert repository.exists()
    assert not (rocky / "usr/local/bin/k3s").exists()


def test_container_selinux_of_the_distribution_stays(rocky: Path) -> None:
    before(rocky, "container-selinux user")
    changed(install(rocky))
    assert changed(uninstall(rocky)) == ["k3s"]
    assert packages(rocky) == ["podman user", "container-selinux user"]


def test_another_policy_of_the_file_replaces_ours_and_not_theirs(rocky: Path) -> None:
    changed(install(rocky))
    (rocky / "opt/k3s-selinux.rpm").write_text("K3s policy 1.7\n")
    assert changed(install(rocky)) == ["selinux_policy"], "K3s itself is not started again"
    assert (rocky / POLICY).read_text() == "K3s policy 1.7\n"


def test_an_install_that_ended_halfway_leaves_no_package(rocky: Path) -> None:
    (rocky / "opt/install.sh").write_text("#!/bin/sh\nexit 1\n")
    assert install(rocky).returncode == 1
    assert "k3s-selinux user" in packages(rocky)
    assert changed(uninstall(rocky)) == ["k3s"]
    assert packages(rocky) == ["podman user"]


def test_dnf_is_quoted_and_nothing_of_k3s_is_there_yet(rocky: Path) -> None:
    lacks = "nothing provides container-selinux >= 3:2.191.0-1"
    (rocky / "dnf.fails").write_text(f"Error: \n Problem: conflicting requests\n  - {lacks}")
    done = install(rocky)
    assert done.returncode == 1
    assert lacks in done.stderr
    assert "changed before this: nothing" in done.stderr
    assert not (rocky / "etc/rancher").exists()


def test_another_file_than_the_pinned_one_is_never_installed(rocky: Path) -> None:
    stdin = f"role=agent\nnode=gpu01\nstack=test\nselinux_policy={rocky}/opt/k3s-selinux.rpm\n"
    done = call(rocky, "k3s_install", f"{stdin}selinux_policy_sha256={'0' * 64}\n")
    assert f"want {'0' * 64}; it was not used" in done.stderr
    assert not (rocky / "dnf.log").exists()


@pytest.mark.parametrize("policy", [True, False])
def test_a_host_without_selinux_gets_no_package(rocky: Path, *, policy: bool) -> None:
    (rocky / "sys/fs/selinux/enforce").unlink()
    assert changed(install(rocky, policy=policy)) == ["config.yaml", "k3s", "enabled", "service"]
    assert packages(rocky) == ["podman user"]
    assert not (rocky / "labelk3s").exists()


def test_a_host_without_dnf_is_told_what_to_do(rocky: Path) -> None:
    (rocky / "dnf").unlink()
    done = install(rocky)
    assert done.returncode == 1
    assert "has SELinux and no dnf: install K3s' policy yourself" in done.stderr
    assert not (rocky / RECORD).exists()
