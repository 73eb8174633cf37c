"""The writer of .vmx files: each key once, other lines untouched, and back to the same bytes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hypervisor.shell import answer

OURS = ("pciPassthru.allowP2P", "sched.mem.min", "numa.nodeAffinity", "pciPassthru0.cfg.gpu-pci-id")
OTHERS = ("displayName", "sched.mem.max", "pciPassthru0.id", "pciPassthru.allowP2P2", "numa.vcpu")
VALUES = st.text("abcTRUE012 :.-#=\\$'`;&", max_size=8)
SCRIPT = """\
state_dir=$world/records
mkdir "$state_dir"
vmx=$world/a.vmx
cut -f 1 "$world/wanted" >"$work/keys_only"
cp "$world/wanted" "$work/raw"
record_lines vm01
: >"$work/edits"
while IFS=$tab read -r key value <&6; do
  printf '%s\\t%s = "%s"\\n' "$key" "$key" "$value" >>"$work/edits"
done 6<"$world/wanted"
rewrite "$vmx" "$work/edits" >"$world/written"
"""
BACK = """\
state_dir=$world/records
vmx=$world/written
differing_lines "$vmx" "$state_dir/vm01.lines" >"$work/edits"
rewrite "$vmx" "$work/edits" >"$world/back"
if [ "$(sort "$world/back")" = "$(sort "$state_dir/vm01.vmx")" ]; then
  cat "$state_dir/vm01.vmx" >"$world/back"
fi
"""


@st.composite
def _files(draw: st.DrawFn) -> str:
    def line() -> str:
        key = draw(st.sampled_from((*OURS, *OTHERS, OURS[0].lower())))
        form = draw(st.sampled_from(('{0} = "{1}"', "{0}={1}", '{0}  =  "{1}" ', "# {0} = 1", "")))
        return form.format(key, draw(VALUES))

    lines = [line() for _ in range(draw(st.integers(0, 8)))]
    return "\n".join(lines) + draw(st.sampled_from(("", "\n")))


def _key(line: str) -> str:
    return line.partition("=")[0].strip().lower() if "=" in line else ""


WANTED = st.dictionaries(
    st.sampled_from(OURS), st.from_regex(r"\A[A-Za-z0-9:.]{1,9}\Z"), min_size=1
)


@settings(max_examples=20, deadline=None)
@given(_files(), WANTED)
def test_every_key_stands_once_and_undo_gives_the_same_bytes(
    text: str, wanted: Mapping[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        world = Path(name)
        (world / "a.vmx").write_text(text)
        (world / "wanted").write_text("".join(f"{k}\t{v}\n" for k, v in wanted.items()))
        answer(world, SCRIPT)
        written = (world / "written").read_text().splitlines()
        ours = {key.lower() for key in wanted}
        for key, value in wanted.items():
            found = [line for line in written if _key(line) == key.lower()]
            assert found == [f'{key} = "{value}"']
        others = [line for line in text.splitlines() if _key(line) not in ours]
        assert [line for line in written if _key(line) not in ours] == others
        answer(world, BACK)
        assert (world / "back").read_bytes() == text.encode()


def test_another_hands_line_stays_when_ours_go(tmp_path: Path) -> None:
    (tmp_path / "a.vmx").write_text('a = "1"\nsched.mem.min = "5"\nsched.mem.min = "6"\n')
    (tmp_path / "wanted").write_text("sched.mem.min\t7\nnuma.nodeAffinity\t0\n")
    answer(tmp_path, SCRIPT)
    assert (tmp_path / "written").read_text() == (
        'a = "1"\nsched.mem.min = "7"\nnuma.nodeAffinity = "0"\n'
    )
    with (tmp_path / "written").open("a") as file:
        file.write('somebody = "else"\n')
    answer(tmp_path, BACK)
    assert (tmp_path / "back").read_text() == (
        'a = "1"\nsched.mem.min = "5"\nsched.mem.min = "6"\nsomebody = "else"\n'
    )


def test_a_value_is_read_exactly(tmp_path: Path) -> None:
    (tmp_path / "a.vmx").write_text(
        'a.b = "x y"\nc = true\nd="1"\nd = "2"\nPciPassthru.allowp2p = "TRUE"\n# e = "3"\n'
    )

    def value(key: str) -> str:
        return answer(tmp_path, f'vmx_value "$world/a.vmx" {key}').strip()

    assert [value(key) for key in ("a.b", "c", "d", "e")] == [
        "x y",
        "TRUE",
        "written 2 times",
        "absent",
    ]
    assert value("pciPassthru.allowP2P") == "absent"  # in other letters ESXi passes over it


def test_a_key_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "a.vmx").write_text('axb = "4"\n')
    assert not re.search("4", answer(tmp_path, 'vmx_value "$world/a.vmx" a.b'))
