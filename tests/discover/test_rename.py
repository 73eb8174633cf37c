"""Another name for a device in the text of a site: only the name changes, and it can go back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.checks.site import load_checked_site
from components.core.errors import SpecError, UsageError
from components.discover.rename import Kind, Rename, Renaming, rename_device
from components.discover.run import replace_file
from components.discover.site_file import SiteFile, read_site_file
from components.drift.applied import Applied, AppliedStep

ROOT = Path(__file__).parents[2]
NEW = Applied()


def recorded(*devices: str) -> Applied:
    """A state that has these devices."""
    return Applied({f"{name}{end}": AppliedStep("x") for name in devices for end in ENDS})


ENDS = ("-tools", "-host")


def site(tmp_path: Path, source: str = "examples/dgx-roce/site.yaml") -> SiteFile:
    path = tmp_path / "site.yaml"
    path.write_bytes((ROOT / source).read_bytes())
    return read_site_file(path)


def rename(file: SiteFile, asked: Rename, applied: Applied) -> tuple[SiteFile, Renaming]:
    done = rename_device(file, asked, applied)
    replace_file(file, done.text)
    return read_site_file(file.path), done


def refusal(file: SiteFile, asked: Rename, applied: Applied = NEW) -> str:
    before = file.path.read_bytes()
    with pytest.raises((UsageError, SpecError)) as caught:
        rename(file, asked, applied)
    assert file.path.read_bytes() == before
    return str(caught.value).replace(str(file.path), "site.yaml")


def changed(before: str, after: str) -> list[tuple[str, str]]:
    """The lines that are others, without those that are new."""
    old, new = before.splitlines(), after.splitlines()
    assert len(new) >= len(old)
    return [(was, now) for was, now in zip(old, new, strict=False) if was != now]


EXAMPLES = [
    (f"{name}.yaml" if name.startswith("tests/") else f"examples/{name}.yaml", kind, old)
    for name, kind, old in (
        ("dgx-roce/site", "host", "gpu01"),
        ("dgx-roce/site", "switch", "leaf-01"),
        ("dgx-roce/kubespray", "host", "gpu01"),
        ("dgx-roce/k3s-ha", "host", "mgmt02"),
        ("spine-leaf/site", "switch", "leaf-01"),
        ("spine-leaf/site", "switch", "spine-01"),
        ("mixed-fabric/site", "switch", "leaf-01"),
        ("quantum-ib/site", "host", "gpu01"),
    )
]


@pytest.mark.parametrize(("source", "kind", "old"), EXAMPLES)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_forward_and_back_gives_the_same_bytes(
    tmp_path: Path, source: str, kind: Kind, old: str, ends: str
) -> None:
    path = tmp_path / "site.yaml"
    text = (ROOT / source).read_text()
    path.write_bytes(text.replace("\n", ends).encode())
    before = path.read_bytes()
    first, done = rename(read_site_file(path), Rename(kind, old, "another"), recorded(old))
    assert done.former == old
    assert not re.search(rf"[ -] (name|peer): {old}$|{old}[/:][0-9a-z]", first.text, re.MULTILINE)
    assert "\r\n" not in first.text if ends == "\n" else "\n" not in first.text.replace("\r\n", "")
    again, done = rename(first, Rename(kind, "another", old), recorded(old))
    assert done.former == ""
    assert again.path.read_bytes() == before


def test_an_applied_rename_goes_back(tmp_path: Path) -> None:
    file = site(tmp_path)
    there, done = rename(file, Rename("host", "mgmt01", "mgmt02"), recorded("mgmt01", "gpu01"))
    assert done.kept_node == "mgmt01"
    spec = load_checked_site(there.path).spec_or_raise()
    assert spec.renamed.hosts == {"mgmt02": "mgmt01"}
    assert (spec.hosts[0].name, spec.hosts[0].node) == ("mgmt02", "mgmt01")
    back, done = rename(there, Rename("host", "mgmt02", "mgmt01"), recorded("mgmt02", "gpu01"))
    assert (done.former, done.kept_node) == ("mgmt02", "mgmt01")
    spec = load_checked_site(back.path).spec_or_raise()
    assert spec.renamed.hosts == {"mgmt01": "mgmt02"}
    assert spec.hosts[0].node_name is None
    other, _ = rename(back, Rename("host", "gpu01", "gpu09"), recorded("mgmt01", "gpu01"))
    assert load_checked_site(other.path).spec_or_raise().renamed.hosts == {"gpu09": "gpu01"}


def test_two_renames_before_an_update_are_one(tmp_path: Path) -> None:
    state = recorded("leaf-01")
    once, _ = rename(site(tmp_path), Rename("switch", "leaf-01", "leaf-07"), state)
    twice, done = rename(once, Rename("switch", "leaf-07", "leaf-08"), state)
    assert done.former == "leaf-01"
    spec = load_checked_site(twice.path).spec_or_raise()
    assert spec.renamed.switches == {"leaf-08": "leaf-01"}


def test_the_stack_file(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_bytes((ROOT / "Pulumi.dev.yaml").read_bytes())
    file = read_site_file(path)
    there, done = rename(file, Rename("host", "gpu01", "gpu09"), recorded("gpu01"))
    lines = path.read_text().splitlines()
    assert [lines[line - 1].strip() for line in done.lines] == [
        "1/1: gpu09/rail-0",
        "1/2: gpu09/rail-1",
        "- name: gpu09",
    ]
    back, _ = rename(there, Rename("host", "gpu09", "gpu01"), recorded("gpu01"))
    assert back.text == file.text


@given(
    new=st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True),
    comment=st.text("abc #:'\"-gpu01/", max_size=12),
    quote=st.sampled_from(["", "'", '"']),
)
@settings(max_examples=8, deadline=None)
def test_any_name_keeps_all_else(
    tmp_path_factory: pytest.TempPathFactory, new: str, comment: str, quote: str
) -> None:
    file = site(tmp_path_factory.mktemp("site"))
    text = file.text.replace("name: gpu01", f"name: {quote}gpu01{quote}  # gpu01 {comment}")
    file.path.write_text(text)
    file = read_site_file(file.path)
    if new in {"leaf-01", "mgmt01", "gpu02"}:
        assert "cannot be called" in refusal(file, Rename("host", "gpu01", new))
        return
    there, _ = rename(file, Rename("host", "gpu01", new), NEW)
    for was, now in changed(file.text, there.text):
        places = re.finditer("gpu01", was)
        spans = [(was[: at.start()], was[at.end() :]) for at in places]
        names = (new, f'"{new}"')
        assert now in {f"{head}{name}{tail}" for head, tail in spans for name in names}
    spec = load_checked_site(there.path).spec_or_raise()
    assert [host.name for host in spec.hosts].count(new) == 1
    back, _ = rename(there, Rename("host", new, "gpu01"), NEW)
    plain = [each.text.replace("'", "").replace('"', "") for each in (file, back)]
    assert plain[0] == plain[1]


def test_refusals(tmp_path: Path) -> None:
    file = site(tmp_path)
    assert refusal(file, Rename("host", "gpu77", "gpu09")) == (
        "site.yaml:34: the file lacks the host gpu77. Nothing was written.\n"
        "  fix    the names are mgmt01, gpu01, gpu02."
    )
    taken = refusal(file, Rename("host", "gpu01", "leaf-01"))
    assert "the name leaf-01 is taken: line 19 of the file uses it" in taken
    for wrong in ("GPU 1", "localhost", "x" * 64, ""):
        assert "cannot be called" in refusal(file, Rename("host", "gpu01", wrong))
    ended = refusal(file, Rename("host", "gpu01", "gpu09"), recorded("gpu01", "gpu09"))
    assert ended.startswith("the state has a device gpu09 too")


def test_a_range_is_written_out_first(tmp_path: Path) -> None:
    file = site(tmp_path, "examples/spine-leaf/site.yaml")
    line = next(n for n, text in enumerate(file.text.splitlines(), 1) if "gpu[" in text)
    said = refusal(file, Rename("host", "gpu01", "gpu09x"))
    assert said.startswith(f"site.yaml:{line}: gpu01 is one of gpu[")


def test_a_subnet_manager_is_refused(tmp_path: Path) -> None:
    file = site(tmp_path, "examples/quantum-ib/site.yaml")
    name = load_checked_site(file.path).spec_or_raise().sm_switches[0].name
    assert "runs a subnet manager" in refusal(file, Rename("switch", name, "other-01"))


def test_a_host_of_a_range_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text((ROOT / "examples" / "spine-leaf" / "site.yaml").read_text())
    with pytest.raises(
        UsageError, match=r"gpu03 is one of gpu\[01-0?8\]|gpu03 is one of gpu\[01-16\]"
    ):
        rename_device(read_site_file(path), Rename("host", "gpu03", "gpu33"), recorded("gpu03"))


def test_a_host_after_a_range_is_renamed(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "spine-leaf" / "site.yaml").read_text()
    begin, stop = text.index("  - name: mgmt01"), text.index("  - name: gpu[01-16]")
    end = text.index("host_defaults:")
    path = tmp_path / "site.yaml"
    path.write_text(text[:begin] + text[stop:end] + text[begin:stop] + text[end:])
    done, _ = rename(read_site_file(path), Rename("host", "mgmt01", "mgmt02"), recorded("mgmt01"))
    host = load_checked_site(done.path).spec_or_raise().hosts[-1]
    assert (host.name, host.node) == ("mgmt02", "mgmt01")
