"""The scripts as texts: shellcheck, and that what is sent is complete in itself."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from components.containers.container_plan import containers_tool
from components.hosts.scripts import boot_script_text, discover_text, host_tool
from components.hypervisor.hypervisor_plan import hypervisor_tool
from components.kubernetes.planes.node_files import kubernetes_tool
from components.remote.tools import strip_comments
from tests.hosts.host_text import library_text, script_text

ROOT = Path(__file__).parents[2]
FOLDERS = sorted((ROOT / "components").glob("*/scripts"))
FILES = [file for folder in FOLDERS for file in sorted(folder.glob("*.sh"))]
SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def test_there_are_scripts() -> None:
    assert len(FILES) >= 10


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.parent.name}-{file.name}")
def test_shellcheck_has_nothing_to_say(file: Path) -> None:
    done = subprocess.run(
        [str(SHELLCHECK), "-x", "-P", str(file.parent), str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.parent.name}-{file.name}")
def test_lines_have_at_most_120_columns(file: Path) -> None:
    long = [
        number for number, line in enumerate(file.read_text().splitlines(), 1) if len(line) > 120
    ]
    assert long == []


TOOLS = (host_tool(), kubernetes_tool(), containers_tool(), hypervisor_tool())


@pytest.mark.parametrize("text", [*(tool.text for tool in TOOLS), discover_text()])
def test_what_is_sent_parses_and_loads_no_other_file(text: str) -> None:
    assert ". ./" not in text
    done = subprocess.run(
        ["/bin/sh", "-n"], input=text, capture_output=True, text=True, timeout=10, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_function_of_the_hosts_tool_takes_the_place_of_another_one() -> None:
    names = Counter(re.findall(r"^([a-z_0-9]+)\(\)", host_tool().text, re.MULTILINE))
    assert len(names) > 400
    assert [name for name, times in names.items() if times > 1] == []


def test_the_tool_uses_no_variable_that_none_of_its_parts_sets() -> None:
    """Each part alone may not say so: what it uses is set by others, and by the table of keys."""
    quick = "--extended-analysis=false"  # of the flow of data, which this rule does not ask
    done = subprocess.run(
        [str(SHELLCHECK), "--shell=sh", "--include=SC2154", quick, "-"],
        input=f"t=$(cat)\n{host_tool().text}",
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_boot_script_parses() -> None:
    done = subprocess.run(
        ["/bin/sh", "-n"],
        input=boot_script_text(),
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_converge_installs_exactly_the_planned_boot_script(tmp_path: Path) -> None:
    written = '{ boot_head && printf \'%s\\n\' "$t"; } >"$BOOT_SCRIPT"'
    assert written in library_text()
    (tmp_path / "tool").write_text(host_tool().text)
    done = subprocess.run(
        ["/bin/sh", "-s", "none"],
        input=f"t=$(cat '{tmp_path}/tool')\n{library_text()}{written}\n".replace(
            "BOOT_SCRIPT=/usr/local/lib/railyard/nics.sh", f"BOOT_SCRIPT={tmp_path}/nics.sh"
        ),
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "nics.sh").read_text() == boot_script_text()


def test_only_whole_comment_lines_are_stripped() -> None:
    assert strip_comments("# a\n\necho '# b' # c\n  # d\n") == "echo '# b' # c\n"


@pytest.mark.parametrize(
    ("stdin", "reason"),
    [
        ("stack=dev\nnic.0000:05:00.0.vfs=many\n", "'many' is no value of nic.0000:05:00.0.vfs"),
        ("stack=dev\nnic.0000:05:00.0.mtu_bytes=99999\n", "'99999' is no value"),
        ("stack=dev\nuser.root;id.uid=1010\n", "'user.root;id.uid' is no setting of a host"),
        ("stack=dev\nhosts.gpu01=$(reboot)\n", "'$(reboot)' is no value of hosts.gpu01"),
        ("stack=dev\nnic.0000:05:00.0.address=10.0.0.1\n", "'10.0.0.1' is no value"),
        ("stack=dev\nnic.0000:05:00.0.ats=yes\n", "'yes' is no value of nic.0000:05:00.0.ats"),
        ("stack=dev\ndocker.engine=absent\n", "'absent' is no value of docker.engine"),
        ("stack=../etc\n", "bad stack name '../etc'"),
        ("stack=dev\nnonsense\n", "'nonsense' is no key=value line"),
        ("hostname=gpu01\n", "stdin has no stack= line"),
    ],
)
def test_converge_refuses_what_it_does_not_understand(
    stdin: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "converge").write_text(script_text("converge"))  # too long for one argument
    done = subprocess.run(
        ["/bin/sh", str(tmp_path / "converge")],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert done.returncode == 1
    assert reason in done.stderr
    assert "changed before this: nothing" in done.stderr


def test_each_name_of_a_site_has_its_own_entry(tmp_path: Path) -> None:
    """Also one that another begins or ends with."""
    names = ["gpu1", "gpu11", "1", "pu1"]
    block = "".join(f"10.0.0.{number} {name}\n" for number, name in enumerate(names))
    begin, end = "# railyard dev: begin, do not edit", "# railyard dev: end"
    (tmp_path / "hosts").write_text(f"10.9.9.9 gone\n{begin}\n{block}{end}\n10.9.9.9 1\n")
    keys = " ".join(f"hosts.{name}" for name in (*names, "gone"))
    script = f"{library_text()}stack=dev\nfor key in {keys}; do read_key $key; done\n"
    (tmp_path / "script").write_text(script.replace("/etc/hosts", f"{tmp_path}/hosts"))
    done = subprocess.run(
        ["/bin/sh", str(tmp_path / "script")],
        capture_output=True, text=True, timeout=10, check=True,
    )  # fmt: skip
    assert done.stdout == "10.0.0.0\n10.0.0.1\n10.0.0.2\n10.0.0.3\nabsent\n"
