"""Two values of daemon.json are ours: they are merged in, and taken out to the last byte."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hosts.host_text import library_text

KEYS = st.sampled_from(["debug", "log-driver", "data-root", "bip", "labels"])
RUNTIMES = st.dictionaries(
    st.sampled_from(["runc2", "kata", "nvidia"]),
    st.fixed_dictionaries({}, optional={"path": st.just("/usr/bin/other"), "args": st.just([])}),
    max_size=2,
)
Json = dict[str, object]


@st.composite
def configs(draw: st.DrawFn) -> Json:
    """A daemon.json that somebody wrote, with and without values of ours in it."""
    value: Json = draw(st.dictionaries(KEYS, st.one_of(st.booleans(), st.text("abc", max_size=3))))
    if draw(st.booleans()):
        value["runtimes"] = draw(RUNTIMES)
    if draw(st.booleans()):
        value["default-runtime"] = "kata"
    return value


HOST: Final = os.environ | {"PATH": f"/usr/bin:/bin:{os.environ['PATH']}"}
"""The system's own python3, as on a host: that of a version manager starts in thrice the time."""


def places(folder: Path) -> str:
    assert (
        "\nDAEMON_CONFIG=/etc/docker/daemon.json\n" in library_text()
    )  # else this machine's is used
    return f"state_dir={folder}/state\nDAEMON_CONFIG={folder}/docker/daemon.json\n"


def sh(folder: Path, script: str) -> str:
    done = subprocess.run(
        ["/bin/sh"],
        input=library_text() + places(folder) + script,
        env=HOST,
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def folder_with(root: Path, text: str | None) -> Path:
    (root / "state").mkdir(parents=True)
    if text is not None:
        (root / "docker").mkdir()
        (root / "docker/daemon.json").write_text(text)
        (root / "docker/daemon.json").chmod(0o640)
    return root


SET = "write_docker docker.runtime ours\nwrite_docker docker.default_runtime nvidia\n"
READ = "read_docker docker.runtime\ndocker_config $DAEMON_CONFIG read default_runtime\n"


@settings(max_examples=5, deadline=None)
@given(config=configs(), indent=st.sampled_from([None, 1, 3]))
def test_ours_go_in_and_out_and_the_rest_stays(config: Json, indent: int | None) -> None:
    text = json.dumps(config, indent=indent)
    with tempfile.TemporaryDirectory() as root:
        folder = folder_with(Path(root) / "x", text)
        before = sh(folder, READ).splitlines()
        assert sh(folder, SET + READ).splitlines() == ["ours", "nvidia"]
        now = json.loads((folder / "docker/daemon.json").read_text())
        runtimes = cast("Json", config.get("runtimes", {}))
        others = {key: value for key, value in runtimes.items() if key != "nvidia"}
        assert {key: value for key, value in now["runtimes"].items() if key != "nvidia"} == others
        ours = ("runtimes", "default-runtime")
        assert {k: v for k, v in now.items() if k not in ours} == {
            k: v for k, v in config.items() if k not in ours
        }
        back = f"write_docker docker.default_runtime {before[1]}\n"
        back += f"write_docker docker.runtime {before[0]}\nforget_docker\n"
        assert sh(folder, back + READ).splitlines() == before
        assert (folder / "docker/daemon.json").read_text() == text
        assert (folder / "docker/daemon.json").stat().st_mode & 0o777 == 0o640
        due = folder / "state/due"  # nobody told dockerd in this test
        assert list((folder / "state").iterdir()) == [due]
        assert due.read_text() == "reload docker\n"


def test_without_a_file_none_is_left(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "x", None)
    assert sh(folder, SET + READ).splitlines() == ["ours", "nvidia"]
    assert (folder / "docker").stat().st_mode & 0o777 == 0o755
    sh(folder, "write_docker docker.default_runtime absent\nwrite_docker docker.runtime absent\n"
       "forget_docker\n")  # fmt: skip
    assert not (folder / "docker").exists()


def test_a_file_that_is_no_json_is_refused_and_kept(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "x", '{"debug": true,')
    done = subprocess.run(
        ["/bin/sh"],
        input=library_text() + places(folder) + SET,
        env=HOST,
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "daemon.json is no JSON object as dockerd reads it" in done.stderr
    assert (folder / "docker/daemon.json").read_text() == '{"debug": true,'


def test_what_was_added_by_hand_since_stays(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "x", "{}")
    sh(folder, SET)
    path = folder / "docker/daemon.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"debug": True}))
    sh(folder, "write_docker docker.default_runtime absent\nwrite_docker docker.runtime absent\n")
    assert json.loads(path.read_text()) == {"debug": True}


def test_a_full_disk_leaves_the_file_as_it_is_and_nothing_beside_it(tmp_path: Path) -> None:
    text = json.dumps({"labels": ["x" * 4000]})
    folder = folder_with(tmp_path, text)
    (folder / "state/daemon.seen").write_text("kept\n")
    done = subprocess.run(
        ["/bin/sh"],
        input=f"{library_text()}{places(folder)}ulimit -f 1\n{SET}",
        env=HOST,
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    path = folder / "docker/daemon.json"
    assert f"cannot write {path} (File too large); it stays as it is" in done.stderr
    assert (path.read_text(), [*path.parent.iterdir()]) == (text, [path])
