"""Pure rooms import no Pulumi: every plan module loads with it blocked (ADR 1)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEAKS_PULUMI = {"component.py", "handoffs.py", "objects.py"}

_BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pulumi", "pulumi_command", "pulumi_kubernetes"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Block())
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def _pure_modules() -> list[str]:
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "components").rglob("*.py")
        if path.name not in SPEAKS_PULUMI
        and path.name != "__init__.py"
        and path.parent.name != "testing"
    )


def test_there_are_pure_modules() -> None:
    assert len(_pure_modules()) > 40


def test_every_pure_module_loads_without_pulumi() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED, *_pure_modules()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_the_product_does_not_know_its_test_harness() -> None:
    product = [*(ROOT / "components").rglob("*.py"), *(ROOT / "stacks").glob("*.py")]
    own = ROOT / "components" / "testing"
    assert [
        str(path)
        for path in product
        if own not in path.parents and "components.testing" in path.read_text()
    ] == []


ROOMS = sorted(path.parent.name for path in (ROOT / "components").glob("*/component.py"))
_ON_DEMAND = """
import importlib, sys
rooms = {name: importlib.import_module("components." + name) for name in sys.argv[1:]}
print("pulumi" in sys.modules)
for name, room in rooms.items():
    print(name, hasattr(room, "Nothing"), *(getattr(room, each) for each in room.__all__))
"""


def test_a_room_gives_its_components_on_demand() -> None:
    rooms = [room for room in ROOMS if room != "remote"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _ON_DEMAND, *rooms],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    before, *lines = done.stdout.splitlines()
    assert before == "False"
    assert len(lines) == len(rooms)
    for room, line in zip(rooms, lines, strict=True):
        assert line.startswith(f"{room} False <class 'components.")
