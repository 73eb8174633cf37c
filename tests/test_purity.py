"""Pure rooms import no Pulumi: every plan module loads with it blocked (ADR 1)."""

import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "remote"])
def test_a_room_gives_its_components_on_demand(room: str) -> None:
    code = (
        f"import sys, components.{room} as room; before = 'pulumi' in sys.modules\n"
        "print(before, hasattr(room, 'Nothing'), *(getattr(room, name) for name in room.__all__))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith("False False <class 'components.")
