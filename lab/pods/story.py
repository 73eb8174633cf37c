"""`make lab-pods`: the product's own manifests and jobs on real nodes, without virtual machines.

Each step is printed as it ends, and written to `.lab/pods/story.log`; a table of all comes last.
The first step that fails ends the story. All of it runs in namespaces of its own
(`lab.pods.enter`), and nothing is left of it, however it ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from components.core.errors import RailyardError
from lab.cluster.build import ensure_binaries
from lab.pods.build import ensure_programs, programs_folder
from lab.pods.enter import run_inside, why_not
from lab.pods.images import push_image
from lab.pods.recipes import recipes_key, recipes_of
from lab.pods.site import MIRROR, PodSite, load_plan
from lab.pods.steps_dhcp import Leases
from lab.pods.steps_jobs import Jobs
from lab.pods.steps_life import Life
from lab.pods.steps_network import Network
from lab.pods.tree import busybox, ensure_tree, tree_folder
from lab.registry.build import registry_program
from lab.telling import Told, close, tell

PROJECT: Final = Path(__file__).parents[2]
FOLDER: Final = PROJECT / ".lab" / "pods"
LOG: Final = FOLDER / "story.log"
INSIDE: Final = "--inside"
DEADLINE_S: Final = 1800.0
"""About 3 minutes on two idle cores once all is built."""
Step = tuple[str, Callable[[], str]]


@dataclass(slots=True)
class Story:
    """The run, and the site it is about."""

    site: PodSite
    registry: Path
    """Where the registry keeps its images between runs."""

    def steps(self) -> tuple[Step, ...]:
        """What happens, in order."""
        site = self.site
        network, jobs, life = Network(site), Jobs(site), Life(site)
        return (
            ("images made here, in a real registry", self.push_images),
            ("control plane, two nodes Ready", self.start),
            ("the plan's pod network", network.apply_plan),
            ("a pod that asks for the rail's resource waits", network.wait_without_cards),
            ("a device plugin registers: the pod runs", network.register_cards),
            ("two pods on the rail: ping, full frames", network.reach),
            ("a whole card in a pod, and back", network.hand_over),
            ("what real parts say where something is wrong", network.refusals),
            ("addresses by DHCP, from a real server", Leases(site).by_dhcp),
            ("DNS and the MPI operator of the plan", jobs.install),
            ("the look at the image, locked memory", jobs.look),
            ("a client that is given its server's address", jobs.pair),
            ("an MPIJob over real sshd", jobs.run_job),
            ("jobs that fail: exit codes and words", jobs.fail),
            ("DaemonSets changed and deleted by hand come back", life.repair),
            ("drained, power cut, back in service", life.reboot),
        )

    def push_images(self) -> str:
        """Make all images, and push those that the registry lacks."""
        site = self.site
        site.lay_cables()
        recipes = recipes_of(site.spec, site.node_programs, site.tree)
        storage = self.registry / recipes_key(recipes)
        site.start_registry(storage)
        done = storage / "complete"
        if not done.exists():
            for recipe in recipes:
                push_image(recipe, busybox(), MIRROR, site.folder)
            done.touch()
        return "\n".join(recipe.name for recipe in recipes)

    def start(self) -> str:
        """The control plane of the lab, and real nodes that join it."""
        self.site.plane.start()
        self.site.start_nodes()
        self.site.wait_for_nodes()
        return "\n".join(self.site.describe_nodes())

    def last_words(self) -> str:
        """The last errors that each node's kubelet and containerd logged."""
        logs = [node.folder / name for node in self.site.nodes for name in _LOGS]
        return "\n".join(
            f"{path.parent.name} {path.stem}: {line}"
            for path in logs
            if path.exists()
            for line in _errors(path)[-3:]
        )


_LOGS: Final = ("kubelet.log", "containerd.log")


def _errors(path: Path) -> list[str]:
    lines = path.read_text(errors="replace").splitlines()
    return [line for line in lines if line.startswith(("E", "F")) or "level=error" in line]


def tell_inside() -> int:
    """The story, as the first process of its namespaces; 0 when every step held."""
    spec, plan = load_plan()
    programs = {**ensure_binaries(), "registry": registry_program()}
    site = PodSite(FOLDER / "run", programs, programs_folder(), tree_folder(), spec, plan)
    story = Story(site, programs_folder().parent / "images")
    steps = story.steps()
    told: list[Told] = []
    try:
        told = tell(steps, LOG, story.last_words)
    finally:
        site.stop()
    return close(told, len(steps), LOG)


def main() -> int:
    """Build what is missing, run the story in namespaces, clean up; 0 when every step held."""
    if INSIDE in sys.argv:
        return tell_inside()
    try:
        reason = why_not()
        if reason:
            print(f"railyard: {reason}", file=sys.stderr)
            return 2
        ensure_binaries()
        ensure_programs()
        ensure_tree()
        busybox()
        registry_program()
        FOLDER.mkdir(parents=True, exist_ok=True)
        return run_inside(["-m", "lab.pods.story", INSIDE], PROJECT, FOLDER, DEADLINE_S)
    except RailyardError as error:
        print(f"railyard: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
