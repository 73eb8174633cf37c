"""adaptive_routing of a card: the register is read and written by whichever tool the host has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from components.hosts.host_plan import plan_hosts
from tests.fabric.switch_labs import LABS
from tests.hosts.fake_host import make_fake, remove_tools, sh, tool

CARD: Final = "0000:05:00.0"
REGISTER: Final = """\
[ "$1 $2 $3 $4" = "-d 0000:05:00.0 --reg_name ROCE_ACCL" ] || exit 1
state=$0.bit
if [ "$5" = --set ]; then
  [ "$7" = --yes ] || exit 1
  echo "${6#adaptive_routing_forced_en=}" >"$state"
fi
bit=0; [ ! -e "$state" ] || bit=$(($(cat "$state")))
printf '%s\\n' 'Sending access register...' '' 'Field Name                      | Data'
printf '%s\\n' 'adaptive_routing_forced_en_field_select | 0x00000000'
printf 'adaptive_routing_forced_en              | 0x%08x\\n' "$bit"
"""
READ: Final = f'value=; find_spreading {CARD}; printf "[%s]" "$value"\n'


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    folder = make_fake(tmp_path)
    remove_tools(folder, "mlxreg", "mstreg")
    return folder


@pytest.mark.parametrize("name", ["mlxreg", "mstreg"])
def test_the_register_is_read_and_written(fake: Path, name: str) -> None:
    tool(fake, name, REGISTER)
    done = sh(fake, f"{READ}write_spreading {CARD} on\n{READ}write_spreading {CARD} off\n{READ}")
    assert done.stdout.count("[off]") == 2
    assert done.stdout.count("[on]") == 1


def test_a_host_without_the_tool_is_told_which_package_has_it(fake: Path) -> None:
    assert sh(fake, READ).stdout == "[]"
    done = sh(fake, f"write_spreading {CARD} on\n")
    assert done.returncode == 1
    assert (
        f"cannot set adaptive_routing of the card at {CARD}: neither mlxreg nor mstreg is on this "
        "host; install mstflint"
    ) in done.stderr


@pytest.mark.parametrize("asked", [True, False])
def test_cards_follow_the_one_key(asked: bool) -> None:  # noqa: FBT001 - a table
    spec = LABS["cumulus"].load_spec(adaptive_routing=asked)
    settings = [
        key for host in plan_hosts(spec) for key in host.desired.values if "adaptive" in key
    ]
    assert bool(settings) is asked
