"""The cards' firmware, with tools that answer as mlxconfig, mst and mlxfwreset do."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.catalogue.cards import CARDS, CardName
from tests.hosts.host_text import library_text

MST = """#!/bin/sh
state=$FAKE/mst_runs
case $1 in
  start) echo on >$state ;;
  stop) rm -f $state ;;
  status)
    [ -e $state ] && word=loaded || word='is not loaded'
    printf 'MST modules:\\n------------\\n    MST PCI configuration module %s\\n\\n' "$word"
    [ -e $state ] || exit 0
    printf '/dev/mst/mt4123_pciconf0         - PCI configuration cycles access.\\n'
    printf '                                   domain:bus:dev.fn=0000:0b:00.0 addr.reg=88\\n'
    printf '/dev/mst/mt4123_pciconf1         - PCI configuration cycles access.\\n'
    printf '                                   domain:bus:dev.fn=0000:13:00.0 addr.reg=88\\n'
    ;;
esac
"""
MLXCONFIG = r"""#!/bin/sh
# $FAKE/nv holds lines NAME CURRENT NEXT; PCI_WR_ORDERING shows with the advanced settings only.
echo "$*" >>$FAKE/calls
json=''
while [ $# -gt 0 ]; do
  case $1 in
    -d) shift ;;
    -j) shift; json=$1 ;;
    -e) ;;
    -y) agreed=yes ;;
    *) break ;;
  esac
  shift
done
[ -z "$json" ] || [ ! -e $FAKE/no_json ] || { echo '-E- Unknown flag: -j'; exit 1; }
grep -q '^ADVANCED_PCI_SETTINGS True' $FAKE/nv || hidden=PCI_WR_ORDERING
grep -v "^${hidden:-none} " $FAKE/nv >$FAKE/shown
[ ! -e $FAKE/broken ] || { echo "-E- Failed to open device: $(cat $FAKE/broken)"; exit 3; }
if [ "$1" = query ]; then
  if [ -n "$json" ]; then
    awk 'BEGIN { printf "{\n\t\"Device #1\" : \n\t{\n\t\t\"name\" : \"A {card}\",\n\t\t\"tlv_configuration\" : \n\t\t{\n" }
      { for (i = 2; i <= 3; i++) if ($i ~ /[(]/) $i = "\"" $i "\""
        printf "%s\t\t\t\"%s\" : \n\t\t\t{\n\t\t\t\t\"current_value\" : %s,\n", (NR > 1 ? ",\n" : ""), $1, $2
        printf "\t\t\t\t\"default_value\" : %s,\n\t\t\t\t\"modified\" : true,\n", $2
        printf "\t\t\t\t\"next_value\" : %s,\n\t\t\t\t\"read_only\" : false\n\t\t\t}", $3 }
      END { printf "\n\t\t}\n\t}\n}\n" }' $FAKE/shown >$json
    [ ! -e $FAKE/one_line ] || { tr -d '\n\t' <$json >$json.1; mv $json.1 $json; }
    echo "Query output saved to $json successfully"
  else
    echo 'Configurations:                       Default         Current         Next Boot'
    awk '{ print ($2 == $3 ? " " : "*") "       " $1 "    " $2 "  " $2 "  " $3 }' $FAKE/shown
  fi
  exit 0
fi
shift
read answer && { echo "read $answer from stdin" >&2; exit 9; }
for word in "$@"; do
  grep -q "^${word%%=*} " $FAKE/shown || { echo "-E- The Device doesn't support ${word%%=*} parameter"; exit 3; }
done
[ -n "$agreed" ] || { sed -n 's/ : y$/ : Aborted by user/p' $FAKE/words | head -n 1; exit 3; }
for word in "$@"; do
  case $word in
    NUM_OF_VFS=*) value=${word#*=} ;;
    LINK_TYPE_P1=1) value='IB(1)' ;;
    LINK_TYPE_P1=2) value='ETH(2)' ;;
    PCI_WR_ORDERING=0) value='per_mkey(0)' ;;
    PCI_WR_ORDERING=1) value='force_relax(1)' ;;
    *=1) value='True(1)' ;;
    *=0) value='False(0)' ;;
  esac
  awk -v name="${word%%=*}" -v value="$value" '$1 == name { $3 = value } { print }' $FAKE/nv >$FAKE/nv.1
  mv $FAKE/nv.1 $FAKE/nv
done
cat $FAKE/words
"""  # noqa: E501 - a program
MLXFWRESET = """#!/bin/sh
cat $FAKE/levels
"""
DONE = "\n Apply new Configuration? (y/n) [n] : y\nApplying... Done!\n-I- {}\n"
REBOOT = "Please reboot machine to load new configurations."
POWER_CYCLE = "Please power cycle machine to load new configurations."
CARD = "0000:0b:00.0"
FACTORY = """\
SRIOV_EN True(1) True(1)
NUM_OF_VFS 8 8
ATS_ENABLED_X True(1) True(1)
ATS_ENABLED False(0) False(0)
LINK_TYPE_P1 IB(1) IB(1)
ADVANCED_PCI_SETTINGS False(0) False(0)
PCI_WR_ORDERING per_mkey(0) per_mkey(0)
"""
WANTED = {
    "ats": "on",
    "fw_sriov_en": "on",
    "fw_num_of_vfs": "64",
    "fw_link_type_p1": "eth",
    "fw_advanced_pci_settings": "on",
    "fw_pci_wr_ordering": "force_relax",
}


def make_fake(folder: Path, values: str = FACTORY) -> Path:
    tools = {"mst": MST, "mlxconfig": MLXCONFIG, "mlxfwreset": MLXFWRESET}
    for name, text in tools.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "nv").write_text(values)
    (folder / "words").write_text(DONE.format(REBOOT))
    return folder


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    return make_fake(tmp_path)


def sh(fake: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh"],
        input=f"{library_text()}firmware_notes=$FAKE/notes\n{script}",
        env={"PATH": f"{fake}:/usr/bin:/bin", "FAKE": str(fake)},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def read(fake: Path, *keys: str, card: str = CARD) -> list[str]:
    lines = "".join(f"echo $(read_firmware {card} {key})\n" for key in keys)
    return sh(fake, lines).stdout.splitlines()


def calls(fake: Path) -> list[str]:
    return (fake / "calls").read_text().splitlines()


def test_the_next_boot_is_set_on_the_card_with_that_address(fake: Path) -> None:
    done = sh(fake, "write_firmware 0000:13:00.0 ats on\n")
    assert done.returncode == 0, done.stderr
    assert read(fake, "ats", "ats_current", "fw_needs", card="0000:13:00.0") == [
        "on", "off", "reboot",
    ]  # fmt: skip
    assert "-d /dev/mst/mt4123_pciconf1 -y set ATS_ENABLED=1" in calls(fake)
    assert [call for call in calls(fake) if call.startswith("-d 0000:13:00.0 -e -j")]


@pytest.mark.parametrize("form", ["json", "one_line", "no_json"])
def test_every_form_of_the_tools_answer_is_read(fake: Path, form: str) -> None:
    (fake / form).touch()
    assert read(fake, "ats", "fw_sriov_en", "fw_num_of_vfs", "fw_link_type_p1") == [
        "off", "on", "8", "ib",
    ]  # fmt: skip
    assert read(fake, "fw_pci_wr_ordering", "fw_needs") == ["hidden", "nothing"]


def test_a_card_is_asked_once_a_run(fake: Path) -> None:
    read(fake, "ats", "ats_current", "fw_num_of_vfs", "fw_needs", "fw_link_type_p1")
    assert len(calls(fake)) == 1


def test_mst_is_left_as_it_was(fake: Path) -> None:
    sh(fake, f"write_firmware {CARD} ats on\nmst status >$FAKE/after\n")
    assert "is not loaded" in (fake / "after").read_text()


def test_a_power_cycle_is_told_from_a_reboot(fake: Path) -> None:
    (fake / "words").write_text(DONE.format(POWER_CYCLE))
    assert sh(fake, f"write_firmware {CARD} ats on\n").returncode == 0
    assert read(fake, "fw_needs") == ["power_cycle"]


@pytest.mark.parametrize(("level", "needs"), [("Supported", "mlxfwreset"), ("Not Supported", "")])
def test_a_bluefield_in_dpu_mode_is_not_restarted_by_its_host(
    fake: Path, level: str, needs: str
) -> None:
    (fake / "levels").write_text(f"3: Driver restart and PCI reset      -{level}\n4: Warm Reboot\n")
    script = f"dpu_mode() {{ return 0; }}\nwrite_firmware {CARD} ats on\nread_needs {CARD}\n"
    assert sh(fake, script).stdout == f"{needs or 'power_cycle'}\n"


def test_an_unexpected_question_is_not_answered(fake: Path) -> None:
    (fake / "words").write_text(" Really? (y/n) [n] : y\nApplying... Done!\n")
    done = sh(fake, f"echo y | write_firmware {CARD} ats on\n")
    assert done.returncode == 1
    assert "asked what Railyard does not know:  Really? (y/n)" in done.stderr
    assert read(fake, "ats") == ["off"]


def test_all_of_a_card_is_set_in_one_call(fake: Path) -> None:
    asked = "".join(f"nic.{CARD}.{key}={value}\n" for key, value in WANTED.items())
    script = f"cat >$work/ordered <<'END'\n{asked}END\n"
    script += f"write_firmware {CARD} ats on\necho $changed\n"
    done = sh(fake, script)
    assert done.returncode == 0, done.stderr
    setting = [call for call in calls(fake) if " -y set " in call]
    assert len(setting) == 1
    assert sorted(setting[0].partition(" set ")[2].split()) == [
        "ADVANCED_PCI_SETTINGS=1", "ATS_ENABLED=1", "LINK_TYPE_P1=2", "NUM_OF_VFS=64",
    ]  # fmt: skip
    assert done.stdout.split() == [
        f"nic.{CARD}.fw_num_of_vfs", f"nic.{CARD}.fw_link_type_p1",
        f"nic.{CARD}.fw_advanced_pci_settings",
    ]  # fmt: skip


def test_old_firmware_is_refused(fake: Path) -> None:
    (fake / "nv").write_text(FACTORY.replace("ATS_ENABLED False(0) False(0)\n", ""))
    done = sh(fake, f"write_firmware {CARD} ats on\n")
    assert done.returncode == 1
    assert "has no ATS_ENABLED: update the firmware" in done.stderr


def test_a_number_of_vfs_for_each_port_is_not_overruled(fake: Path) -> None:
    (fake / "nv").write_text(f"{FACTORY}PF_NUM_OF_VF_VALID True(1) True(1)\n")
    assert read(fake, "fw_num_of_vfs", "fw_needs") == ["per_pf", "nothing"]
    done = sh(fake, f"write_firmware {CARD} fw_num_of_vfs 16\n")
    assert done.returncode == 1
    assert "PF_NUM_OF_VF_VALID=0, or remove firmware.manage" in done.stderr
    assert not [call for call in calls(fake) if " set " in call]


def test_a_card_that_does_not_tell_what_it_runs_with_waits_once_it_was_set(fake: Path) -> None:
    (fake / "nv").write_text("ATS_ENABLED False(0) False(0)\n")
    (fake / "no_json").touch()
    table = (
        (fake / "mlxconfig").read_text().replace("Current   ", "").replace('"  " $2 "  "', '"  "')
    )
    (fake / "mlxconfig").write_text(table)
    assert read(fake, "ats", "ats_current", "fw_needs") == ["off", "unknown", "nothing"]
    assert sh(fake, f"write_firmware {CARD} ats on\n").returncode == 0
    assert read(fake, "ats", "ats_current", "fw_needs") == ["on", "unknown", "reboot"]


def test_all_cards_are_asked_together(fake: Path) -> None:
    keys = "".join(f"nic.{pci}.ats=on\n" for pci in (CARD, "0000:13:00.0", "0000:13:00.1"))
    done = sh(fake, f"cat >$work/desired <<'END'\n{keys}END\nask_cards\nls $work\n")
    assert [name for name in done.stdout.split() if name.startswith("firmware.")] == [
        f"firmware.{CARD}", "firmware.0000:13:00.0", "firmware.0000:13:00.1",
    ]  # fmt: skip
    assert len(calls(fake)) == 3


def test_without_a_tool_the_packages_are_named(fake: Path) -> None:
    (fake / "mlxconfig").unlink()
    done = sh(fake, f"write_firmware {CARD} ats on\n")
    assert done.returncode == 1
    assert "install MFT" in done.stderr


@pytest.mark.parametrize(
    ("runs", "floor", "read"),
    [
        ("20.35.2000", "20.35.2000", "20.35.2000"),
        ("20.43.1014", "20.35.2000", "20.35.2000"),
        ("20.9.9999", "20.35.2000", "20.9.9999"),
        ("", "20.35.2000", "unknown"),
    ],
)
def test_the_floor_holds_by_number(fake: Path, runs: str, floor: str, read: str) -> None:
    script = f"firmware_version() {{ echo {runs}; }}\n"
    script += f"echo nic.{CARD}.fw_floor={floor} >$work/desired\nread_floor {CARD}\n"
    assert sh(fake, script).stdout == f"{read}\n"


def test_the_script_knows_the_cards_of_the_table(fake: Path) -> None:
    assert set(get_args(CardName)) == set(CARDS)
    lines = "".join(
        f"find_card_name 0x{device}\necho \"$value\"\nmodel_ids '{card.name}'\n"
        for card in CARDS.values()
        for device in (card.pf_device, *card.also)
    )
    expected = [
        text
        for card in CARDS.values()
        for _ in (card, *card.also)
        for text in (card.name, f"device {card.pf_device}, mst mt{int(card.pf_device, 16)}")
    ]
    assert sh(fake, lines).stdout.splitlines() == expected


CONVERGE = """
mkdir -p $state_dir
[ -e $state_dir/baseline ] || while IFS= read -r line; do
  printf '%s=%s\\n' "${line%%=*}" "$(read_key ${line%%=*})"
done <$work/desired >$state_dir/baseline
ranked $work/desired >$work/ordered
waiting=''
while IFS= read -r line <&8; do
  key=${line%%=*}
  [ "$(read_key $key)" != "${line#*=}" ] || continue
  ! waits_for_boot "$key" "${line#*=}" || { waiting="$waiting $key"; continue; }
  write_key "$key" "${line#*=}"
done 8<$work/ordered
echo "$waiting"
"""
UNDO = """
ranked $state_dir/baseline -r >$work/ordered
while IFS= read -r line <&8; do
  [ "$(read_key ${line%%=*})" != "${line#*=}" ] || continue
  kept "${line%%=*}" "${line#*=}" || write_key "${line%%=*}" "${line#*=}"
done 8<$work/ordered
"""
BOOL = st.sampled_from(["True(1)", "False(0)"])
COLUMNS = {
    "SRIOV_EN": BOOL,
    "NUM_OF_VFS": st.integers(0, 127).map(str),
    "ATS_ENABLED": BOOL,
    "LINK_TYPE_P1": st.sampled_from(["IB(1)", "ETH(2)"]),
    "ADVANCED_PCI_SETTINGS": BOOL,
    "PCI_WR_ORDERING": st.sampled_from(["per_mkey(0)", "force_relax(1)"]),
}
STATES = st.fixed_dictionaries({name: st.tuples(v, v) for name, v in COLUMNS.items()})


def nv_lines(fake: Path) -> list[str]:
    return (fake / "nv").read_text().splitlines()


def boot(fake: Path) -> None:
    rows = [line.split() for line in nv_lines(fake)]
    (fake / "nv").write_text("".join(f"{name} {new} {new}\n" for name, _, new in rows))


def converge(fake: Path, main: str = CONVERGE) -> subprocess.CompletedProcess[str]:
    """What converge.sh and undo.sh do with the settings of a card that is there."""
    asked = "".join(f"nic.{CARD}.{key}={value}\n" for key, value in WANTED.items())
    there = 'read_key() { split_nic "$1"; read_firmware "$pci" "$setting"; }\n'
    there += 'write_key() { split_nic "$1"; write_firmware "$pci" "$setting" "$2"; }\n'
    there += "is_gone() { return 1; }\nstate_dir=$FAKE/state\n"
    return sh(fake, f"{there}cat >$work/desired <<'END'\n{asked}END\n{main}")


@given(STATES)
@settings(max_examples=10, deadline=None)
def test_any_state_is_as_wanted_after_two_starts_and_is_put_back(
    values: dict[str, tuple[str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = "".join(f"{name} {now} {new}\n" for name, (now, new) in values.items())
        fake = make_fake(Path(folder), text)
        for _ in range(2):
            done = converge(fake)
            assert done.returncode == 0, done.stderr
            boot(fake)
        running = [f"{key}_current" for key in WANTED]
        assert read(fake, *WANTED) == list(WANTED.values())
        assert read(fake, *running, "fw_needs") == [*WANTED.values(), "nothing"]
        before = len(calls(fake))
        shown = (fake / "nv").read_text()
        assert converge(fake).stdout.strip() == ""
        assert not [call for call in calls(fake)[before:] if " set " in call]
        assert (fake / "nv").read_text() == shown
        assert converge(fake, UNDO).returncode == 0
        following = {line.split()[0]: line.split()[2] for line in nv_lines(fake)}
        assert following == {name: new for name, (_, new) in values.items()}
