"""Our part of /etc/hosts: whatever is altered in it is a difference, and an update ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.folder_host import FolderHost, folder_host

LIST = "10.0.0.1 gpu01\n10.0.0.2 gpu02\n"
DIGEST = "981802dd3f6be8ad4dbe2922206202e75016e48c6e38de30915704b3501ea444"
"""`printf '10.0.0.1 gpu01\\n10.0.0.2 gpu02\\n' | sha256sum`."""
BLOCK = (f"hosts_block=2 names {DIGEST}",)
ENTRIES = ("hosts.gpu01=10.0.0.1", "hosts.gpu02=10.0.0.2")
BEFORE = "127.0.0.1 localhost\n"
END = "# railyard dev: end\n"


def named(root: Path, lines: tuple[str, ...]) -> FolderHost:
    host = folder_host(root)
    host.write(f"var/lib/railyard/tools/{DIGEST}/tool", LIST)
    host.write("etc/hosts", BEFORE)
    host.report("converge", *lines)
    assert text_of(host) == f"{BEFORE}# railyard dev: begin, do not edit\n{LIST}{END}"
    return host


def text_of(host: FolderHost) -> str:
    return (host.root / "etc/hosts").read_text()


def differing(host: FolderHost, lines: tuple[str, ...]) -> set[str]:
    seen = host.observe(*lines)
    wanted = dict(line.split("=", 1) for line in lines)
    return {key for key, value in wanted.items() if seen[key] != value}


SECOND = "10.0.0.2 gpu02\n"


@pytest.mark.parametrize("lines", [BLOCK, ENTRIES], ids=["block", "entries"])
@pytest.mark.parametrize(
    "altered",
    [
        "10.0.0.9 gpu02\n",
        "10.0.0.2 gpu02 storage\n",
        "10.0.0.2 gpu02 # mine\n",
        "10.0.0.8 gpu02\n10.0.0.2 gpu02\n",
        "10.0.0.2 gpu02\n10.0.0.2 gpu02\n",
        "10.0.0.2\tgpu02\n",
        "#10.0.0.2 gpu02\n",
        "",
    ],
)
def test_an_altered_line_is_seen_and_set_again(
    tmp_path: Path, lines: tuple[str, ...], altered: str
) -> None:
    host = named(tmp_path, lines)
    whole = text_of(host)
    host.write("etc/hosts", whole.replace(SECOND, altered))
    assert differing(host, lines) == {lines[-1].partition("=")[0]}
    host.report("converge", *lines)
    assert differing(host, lines) == set()
    assert [line for line in text_of(host).splitlines() if not line.startswith("#1")] == (
        whole.splitlines()
    )


def test_a_comment_in_the_part_is_seen_and_taken_out(tmp_path: Path) -> None:
    host = named(tmp_path, BLOCK)
    whole = text_of(host)
    host.write("etc/hosts", whole.replace(SECOND, f"# mine\n{SECOND}"))
    assert differing(host, BLOCK) == {"hosts_block"}
    host.report("converge", *BLOCK)
    assert text_of(host) == whole


@pytest.mark.parametrize("lines", [BLOCK, ENTRIES], ids=["block", "entries"])
def test_a_part_that_lost_its_end_is_seen_and_refused(
    tmp_path: Path, lines: tuple[str, ...]
) -> None:
    """Else what a person adds to the end of the file would be taken for ours."""
    host = named(tmp_path, lines)
    text = text_of(host).removesuffix(END)
    host.write("etc/hosts", text)
    assert differing(host, lines) == {line.partition("=")[0] for line in lines}
    done = host.run("converge", *lines)
    assert done.returncode == 1
    assert "lost one of these two lines" in done.stderr
    assert text_of(host) == text


@pytest.mark.parametrize("lines", [BLOCK, ENTRIES], ids=["block", "entries"])
def test_undo_leaves_the_file_as_it_was(tmp_path: Path, lines: tuple[str, ...]) -> None:
    host = named(tmp_path, lines)
    host.write("etc/hosts", text_of(host).replace(SECOND, "10.0.0.7 gpu02 storage\n"))
    assert host.report("undo")["left"] == []
    assert text_of(host) == BEFORE
