"""`make lab-vm`: the scripts of the hosts room on two real kernels, from first look to undo.

Each step is printed as it ends, and written to `.lab/vm/story.log`; a table of all comes last. The
first step that fails ends the story. Nothing is left running, however it ends.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from components.model.cluster import ClusterSpec
from lab.telling import Told, close, tell
from lab.vm import rdma
from lab.vm.carried import Carried, plan_guests
from lab.vm.drifts import PF, Drift, drifts_of
from lab.vm.guest import demand, make_disk, reboot, wait_for_boot
from lab.vm.image import Image, ensure_image
from lab.vm.judging import (
    StoryError,
    describe_findings,
    left_modules,
    require_as_before,
    require_named,
    require_nothing,
)
from lab.vm.qemu import Guest, Wiring, choose_accelerator, free_port, start_guest
from lab.vm.scripts import converge, observe, undo
from lab.vm.snapshot import LOOK, RESIDUE, Noise, Snapshot, parse_snapshot
from lab.vm.tools import ensure_tools

PROJECT: Final = Path(__file__).parents[2]
FOLDER: Final = PROJECT / ".lab" / "vm"
NAMES: Final = ("gpu01", "gpu02")
VLAN: Final = 111
_AFTER_BOOT: Final = (
    f"systemctl is-active railyard-nics.service; cat /sys/class/net/{PF}/device/sriov_numvfs"
)
_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class Story:
    """The run: its guests, their plans, and what was seen of them."""

    folder: Path
    guests: list[Guest] = field(default_factory=list[Guest])
    spec: ClusterSpec | None = None
    carried: Mapping[str, Carried] = field(default_factory=dict[str, Carried])
    boots: dict[str, str] = field(default_factory=dict[str, str])
    before: dict[str, Snapshot] = field(default_factory=dict[str, Snapshot])
    came_with_rdma: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    gids: dict[str, str] = field(default_factory=dict[str, str])
    log_of_client: str = ""
    image: Image | None = None

    def steps(self) -> tuple[tuple[str, Callable[[], str]], ...]:
        """What happens, in order."""
        return (
            ("image", self.make_image),
            ("boot both", self.boot),
            ("plan the site", self.plan),
            ("look at them as they are", self.look_before),
            ("converge", self.converge),
            ("undo at once: as before", self.undo_at_once),
            ("converge once more", self.converge),
            ("converge again: nothing changes", self.converge_again),
            ("change by hand", self.drift),
            ("observe names each change", self.observe_drift),
            ("converge repairs", self.repair),
            ("reboot both: the boot unit has set all again", self.reboot),
            (f"VLAN {VLAN} on a VF of each", self.put_on_vlan),
            ("ib_write_bw between the VFs", self.write),
            ("our judge on its log", self.judge),
            ("undo: as before", self.undo),
            ("reboot: as before", self.reboot_after_undo),
        )

    def tell(self) -> list[Told]:
        """Run all steps; the first that fails is the last."""
        try:
            return tell(self.steps(), self.folder / "story.log", self.last_words)
        finally:
            for guest in self.guests:
                guest.stop()

    def last_words(self) -> str:
        """The end of what each guest's kernel said."""
        consoles = [guest.console for guest in self.guests if guest.console.exists()]
        texts = [path.read_text(errors="replace").splitlines()[-3:] for path in consoles]
        return "\n".join(
            f"{path.name}: {line}"
            for path, lines in zip(consoles, texts, strict=True)
            for line in lines
        )

    def make_image(self) -> str:
        """Debian's disk, from the cache where it is there."""
        tools = ensure_tools()
        self.image = ensure_image()
        for name in NAMES:
            make_disk(name, self.image, self.folder)
        return f"{tools}; {self.image.disk.parent}"

    def boot(self) -> str:
        """Start both guests side by side; the ports of their SSH go into the site's file."""
        image = self.image or ensure_image()
        accelerator = choose_accelerator(image)
        wiring = Wiring(accelerator, free_port(socket.SOCK_DGRAM))
        self.guests += [
            start_guest(name, number, image, self.folder, wiring)
            for number, name in enumerate(NAMES, 1)
        ]
        ports = {guest.name: guest.port for guest in self.guests}
        self.spec, carried = plan_guests(ports, self.folder)
        self.carried = {each.plan.name: each for each in carried}
        self.boots = self.on_each(lambda name: wait_for_boot(self.carried[name].plan.endpoint))
        return f"accelerator: {accelerator}; pids {[guest.child.pid for guest in self.guests]}"

    def plan(self) -> str:
        """The product's model, checks and plan; what the card cannot have is named."""
        one = self.carried[NAMES[0]]
        left_out = [f"not carried: {key} ({why})" for key, why in one.left_out.items()]
        return "\n".join([f"{len(one.plan.desired.values)} settings on each", *left_out])

    def look_before(self) -> str:
        """Twice: two looks at an untouched machine are equal."""
        self.before = self.on_each(self.look)
        again = self.on_each(self.look)
        for name in NAMES:
            require_as_before(name, self.before[name], again[name])
        kernel = demand(self.carried[NAMES[0]].plan.endpoint, "uname -sr").strip()
        return f"{kernel}; {self.before[NAMES[0]].size} values, equal in two looks"

    def converge(self) -> str:
        """The real script, over SSH, as `pulumi up` sends it."""
        changed = self.on_each(lambda name: converge(self.carried[name].plan))
        for name in NAMES:
            require_nothing(f"drift of {name}", observe(self.carried[name].plan).values())
        return "\n".join(f"{name}: changed {', '.join(keys)}" for name, keys in changed.items())

    def converge_again(self) -> str:
        """The same once more."""
        changed = self.on_each(lambda name: converge(self.carried[name].plan))
        for name, keys in changed.items():
            require_nothing(f"changed on {name} by a second run", keys)
        return "changed nothing"

    def drift(self) -> str:
        """All changes by hand that the plan should notice."""
        commands = {
            name: "set -e\n" + "\n".join(drift.command for drift in self.drifts(name))
            for name in NAMES
        }
        self.on_each(lambda name: demand(self.carried[name].plan.endpoint, commands[name]))
        return "\n".join(f"{name}: {drift.words}" for name in NAMES for drift in self.drifts(name))

    def drifts(self, name: str) -> tuple[Drift, ...]:
        """The changes by hand for one guest."""
        return drifts_of(name, frozenset(self.carried[name].plan.desired.values))

    def observe_drift(self) -> str:
        """Each is named."""
        seen = self.on_each(lambda name: observe(self.carried[name].plan))
        for name in NAMES:
            wanted = {key for drift in self.drifts(name) for key in drift.named}
            may_follow = "|".join(drift.may_follow for drift in self.drifts(name))
            require_named(name, wanted, seen[name], may_follow)
        return "\n".join(f"{name}: {words}" for name in NAMES for words in seen[name].values())

    def repair(self) -> str:
        """One converge brings all of it back, and touches nothing else."""
        changed = self.on_each(lambda name: converge(self.carried[name].plan))
        for name in NAMES:
            require_nothing(
                f"drift of {name} after the repair", observe(self.carried[name].plan).values()
            )
        return "\n".join(f"{name}: repaired {', '.join(keys)}" for name, keys in changed.items())

    def reboot(self) -> str:
        """A restart loses VFs and settings; the boot unit sets them again."""
        self.restart()
        for name in NAMES:
            plan = self.carried[name].plan
            state = demand(plan.endpoint, _AFTER_BOOT).split()
            require_nothing(f"drift of {name} after a restart", observe(plan).values())
            if state != ["active", "4"]:
                raise StoryError(f"{name}: boot unit and VFs after a restart: {' '.join(state)}")
        return "railyard-nics.service active, 4 VFs, no drift"

    def put_on_vlan(self) -> str:
        """VFs of one VLAN reach each other; of two VLANs they do not."""
        modules = self.on_each(self.modules)
        self.set_vlan(NAMES[0], VLAN)
        self.set_vlan(NAMES[1], VLAN)
        gids = self.on_each(
            lambda name: rdma.add_device(self.carried[name].plan.endpoint, _number(name))
        )
        first = self.carried[NAMES[0]].plan.endpoint
        if not rdma.answers(first, 2, within_s=60):
            raise StoryError(f"the VF of {NAMES[1]} does not answer over VLAN {VLAN}")
        self.set_vlan(NAMES[1], VLAN + 1)
        if rdma.answers(first, 2, within_s=10):
            raise StoryError(f"a VF in VLAN {VLAN + 1} answers one in VLAN {VLAN}")
        self.set_vlan(NAMES[1], VLAN)
        self.came_with_rdma = {
            name: now - modules[name] for name, now in self.on_each(self.modules).items()
        }
        self.gids = gids
        return f"they answer in one VLAN, not across two; GID index {gids}"

    def write(self) -> str:
        """Real RDMA writes, with the command that the site's jobs run."""
        if self.spec is None:
            raise StoryError("the site was not planned")
        client, server = (
            rdma.End(self.carried[name].plan.endpoint, _number(name), self.gids[name])
            for name in NAMES
        )
        self.log_of_client = rdma.run_perftest(self.spec, client, server)
        (self.folder / "ib_write_bw.log").write_text(self.log_of_client)
        return self.log_of_client.strip()

    def judge(self) -> str:
        """Parsed and judged: good but for the speed, which is that of the emulation."""
        real = describe_findings(rdma.judge(self.log_of_client, self.plan_fraction))
        if not any("bandwidth: failed" in line for line in real):
            raise StoryError("the judge takes the speed of an emulated card for a real one's")
        lines = describe_findings(rdma.judge(self.log_of_client, rdma.EMULATED_FRACTION))
        wrong = [line for line in lines if ": passed" not in line]
        require_nothing("not passed", wrong)
        return "\n".join([*lines, "with the floor of real hardware:", *real[-1:]])

    @property
    def plan_fraction(self) -> float:
        """The floor of a real site."""
        return self.spec.acceptance.perftest_min_fraction if self.spec else 1.0

    def undo(self) -> str:
        """All is as before, but what came with the RDMA device that the story itself made."""
        for name in NAMES:
            rdma.remove_device(self.carried[name].plan.endpoint, _number(name))
        return self.undo_and_compare(self.came_with_rdma)

    def undo_at_once(self) -> str:
        """Where nobody uses yet what converge loaded, its modules go too."""
        return self.undo_and_compare(dict.fromkeys(NAMES, frozenset[str]()))

    def undo_and_compare(self, others: Mapping[str, frozenset[str]]) -> str:
        """The real undo; what it leaves is named.

        Args:
            others: Guest to the modules that others than Railyard loaded since the first look.
        """
        left = self.on_each(lambda name: undo(self.carried[name].plan))
        now = self.on_each(self.look)
        lines: list[str] = []
        for name in NAMES:
            loaded = sorted(others[name] | left_modules(left[name]))
            own = [Noise("module", module, "in use, or not ours") for module in loaded]
            own += [Noise("sysctl", rf"(net\.)?{module}\..*", "of the module") for module in loaded]
            require_as_before(name, self.before[name], now[name], [*RESIDUE, *own])
            words = f"left by undo: {', '.join(left[name]) or 'nothing'}"
            words += f"; not compared: {' '.join(loaded) or 'no module'}"
            lines.append(f"{name}: {now[name].size} values as before; {words}")
        reasons = [f"until a restart: {each.pattern} ({each.reason})" for each in RESIDUE]
        return "\n".join([*lines, *reasons])

    def reboot_after_undo(self) -> str:
        """After a restart too, with nothing passed over."""
        self.restart()
        now = self.on_each(self.look)
        for name in NAMES:
            require_as_before(name, self.before[name], now[name])
        return f"{now[NAMES[0]].size} values as before"

    def set_vlan(self, name: str, vlan: int) -> None:
        """Put the first VF of a guest into a VLAN: its card tags what it sends."""
        demand(self.carried[name].plan.endpoint, f"ip link set {PF} vf 0 vlan {vlan}")

    def modules(self, name: str) -> frozenset[str]:
        """The modules of one guest's kernel."""
        endpoint = self.carried[name].plan.endpoint
        return frozenset(demand(endpoint, "cut -d ' ' -f 1 /proc/modules").split())

    def look(self, name: str) -> Snapshot:
        """What one guest is like."""
        return parse_snapshot(demand(self.carried[name].plan.endpoint, LOOK))

    def restart(self) -> None:
        """Reboot both, and wait for another boot of each."""
        for name in NAMES:
            reboot(self.carried[name].plan.endpoint)
        self.boots = self.on_each(
            lambda name: wait_for_boot(self.carried[name].plan.endpoint, self.boots[name])
        )

    def on_each(self, work: Callable[[str], _Answer]) -> dict[str, _Answer]:
        """Do it on all guests at once."""
        with ThreadPoolExecutor(max_workers=len(NAMES)) as pool:
            return dict(zip(NAMES, pool.map(work, NAMES), strict=True))


def _number(name: str) -> int:
    return NAMES.index(name) + 1


def main() -> int:
    """Run the story; 0 when every step held."""
    story = Story(FOLDER)
    return close(story.tell(), len(story.steps()), FOLDER / "story.log")


if __name__ == "__main__":
    sys.exit(main())
