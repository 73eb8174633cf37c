"""`make lab-vm`, second part: pods with real VFs, and containers with MPI, on two real kernels.

The guests are nodes of the lab's control plane, which runs beside them in a network namespace of
its own with a registry. Each step is printed as it ends, and written to `.lab/vm-pods/story.log`.
Nothing is left running, however it ends.
"""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from components.core.errors import DeviceError, RailyardError
from components.kubernetes.manifest import containers_in
from components.plan.make import ClusterPlan
from lab.cluster.build import ensure_binaries
from lab.pods.build import ensure_programs, programs_folder
from lab.pods.configs import CONTROL_PLANE, K3S_PLUGINS, MIRROR, PAUSE, NodeAddresses
from lab.pods.enter import run_inside
from lab.pods.images import push_image
from lab.pods.recipes import recipes_key, recipes_of, sriov_recipes
from lab.pods.site import ClusterSite, load_plan
from lab.pods.tree import busybox, ensure_tree, tree_folder
from lab.registry.build import registry_program
from lab.telling import Told, close, tell
from lab.vm.cables import TAP, lay_cables
from lab.vm.carried import Carried, plan_guests
from lab.vm.guest import make_disk, wait_for_boot
from lab.vm.image import NODES, PROGRAMS_LABEL, Image, ensure_image, network_file, run_tool
from lab.vm.judging import require_nothing
from lab.vm.node import UNITS, GuestNode
from lab.vm.qemu import Wiring, choose_accelerator, free_port, start_guest
from lab.vm.ready import lacks
from lab.vm.scripts import converge, observe
from lab.vm.steps_mpi import Mpi
from lab.vm.steps_pods import Pods
from lab.vm.tools import ensure_tools

PROJECT: Final = Path(__file__).parents[2]
FOLDER: Final = PROJECT / ".lab" / "vm-pods"
LOG: Final = FOLDER / "story.log"
SITE: Final = Path(__file__).with_name("pods.yaml")
INSIDE: Final = "--inside"
DEADLINE_S: Final = 5400.0
"""Beside a load of 20 on two cores its parts took half an hour together."""
PATIENCE: Final = 10.0
"""Beside a load of 20, emulated processors took 11 minutes to unpack the image of the jobs, where a
pod has 2 by itself."""
MEMORY_MIB: Final = 2800
"""With 2048 the kernel drops the pages of running programs and reads them again all the time. From
2816 on, QEMU's q35 puts a part above 4 GiB, and the VFs of its card do not answer any more (seen
with 3072 and QEMU 10.0.2)."""
KERNEL_OPTIONS: Final = "apparmor=0 transparent_hugepage=never"
"""AppArmor compiles its profiles at each start, which takes a minute on emulated processors. The
kernel thread of huge pages gets no time beside busy programs, and it blocks RCU meanwhile: each new
network namespace then waits for minutes, and Multus gives up."""
ON_GUESTS: Final = (*UNITS, "containerd-shim-runc-v2", "ctr", *K3S_PLUGINS)
"""Programs that a guest has before a pod brings others."""
PROGRAMS_BYTES: Final = 512 * 2**20
"""They take about 300 MB."""
_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class Story:
    """The run: control plane, registry, guests and their plans."""

    site: ClusterSite[GuestNode]
    registry: Path
    """Where the registry keeps its images between runs."""
    image: Image
    plan: ClusterPlan
    carried: Mapping[str, Carried] = field(default_factory=dict[str, Carried])

    @property
    def folder(self) -> Path:
        """Of the run."""
        return self.site.folder

    def steps(self) -> tuple[tuple[str, Callable[[], str]], ...]:
        """What happens, in order."""
        pods, mpi = Pods(self.site), Mpi(self.site)
        return (
            ("images made here, in a real registry", self.push_images),
            ("boot both", self.boot),
            ("the plan's hosts: VFs by the real script", self.converge),
            ("Docker of the distribution starts", mpi.start_docker),
            ("the ESXi site's keys and containers", mpi.converge),
            ("mpirun in one container, ranks in both", mpi.launch),
            ("the containers' key opens nothing else", mpi.refuse),
            ("undo of the payload: as before", mpi.undo),
            ("control plane, two nodes Ready", self.start),
            ("the plan's pod network: real SR-IOV parts", pods.apply_plan),
            ("a pod that wants more VFs than there are", pods.want_too_much),
            ("a pod on each node gets a VF in the rail's VLAN", pods.give_vfs),
            ("full frames over the rail, and none of another VLAN", pods.reach),
            ("software RDMA in each pod's own network", pods.add_rdma),
            ("ib_write_bw between the pods", pods.write),
            ("our judge on its log", pods.judge),
            ("pods end: their VFs are the nodes' again", pods.take_back),
        )

    def push_images(self) -> str:
        """Make the images that the plan names, and push those that the registry lacks."""
        addresses = tuple(
            NodeAddresses(each.name, n) for n, each in enumerate(self.site.spec.workers, 1)
        )
        lay_cables(addresses)
        wanted = self.wanted_images()
        programs, tree = self.site.node_programs, self.site.tree
        every = (*recipes_of(self.site.spec, programs, tree), *sriov_recipes(programs, tree))
        recipes = tuple(each for each in every if f"{MIRROR}/{each.name}" in wanted)
        storage = self.registry / recipes_key(recipes)
        self.site.start_registry(storage)
        done = storage / "complete"
        if not done.exists():
            for recipe in recipes:
                push_image(recipe, busybox(), MIRROR, self.folder)
            done.touch()
        for each in addresses:
            network = network_file(each.management, CONTROL_PLANE)
            make_disk(each.name, self.image, self.folder, network)
        self._make_programs()
        return "\n".join(recipe.name for recipe in recipes)

    def wanted_images(self) -> set[str]:
        """What the pod network and the pods of this story pull."""
        manifests = self.plan.pod_network.manifests
        named = {str(each["image"]) for one in manifests for each in containers_in(one.body)}
        return {*named, self.site.job_image, f"{MIRROR}/{PAUSE}"}

    def _make_programs(self) -> None:
        """A disk with what guests run before a pod brings more."""
        folder, disk = self.folder / "programs", self.folder / "programs.img"
        folder.mkdir()
        for name in ON_GUESTS:
            shutil.copy2(self.site.node_programs / name, folder / name)
        with disk.open("wb") as file:
            file.truncate(PROGRAMS_BYTES)
        run_tool("mkfs.ext4", "-q", "-L", PROGRAMS_LABEL, "-d", str(folder), str(disk))
        shutil.rmtree(folder)

    def boot(self) -> str:
        """Start both guests side by side, on the lab's own network."""
        accelerator = choose_accelerator(self.image)
        if accelerator == "tcg":
            self.site.patience = PATIENCE
        wiring = Wiring(
            accelerator,
            free_port(socket.SOCK_DGRAM),
            TAP,
            MEMORY_MIB,
            self.folder / "programs.img",
            KERNEL_OPTIONS,
        )
        spec, carried = plan_guests({}, self.folder, SITE)
        self.carried = {each.plan.name: each for each in carried}
        for number, host in enumerate(spec.workers, 1):
            guest = start_guest(host.name, number, self.image, self.folder, wiring)
            endpoint = self.carried[host.name].plan.endpoint
            self.site.nodes.append(GuestNode(guest, endpoint, self.folder / host.name))
        self.on_each(lambda node: wait_for_boot(node.endpoint))
        return f"accelerator: {accelerator}"

    def converge(self) -> str:
        """The product's own script; what the card cannot have is named."""
        changed = self.on_each(lambda node: converge(self.carried[node.name].plan))
        for name in changed:
            require_nothing(f"drift of {name}", observe(self.carried[name].plan).values())
        one = next(iter(self.carried.values()))
        left_out = [f"not carried: {key} ({why})" for key, why in one.left_out.items()]
        lines = [f"{name}: changed {', '.join(keys)}" for name, keys in changed.items()]
        return "\n".join([*lines, *left_out])

    def start(self) -> str:
        """The control plane of the lab, and the guests join it."""
        self.site.plane.start()
        self.on_each(lambda node: node.join(self.site.plane))
        self.site.wait_for_nodes()
        return "\n".join(self.site.describe_nodes())

    def on_each(self, work: Callable[[GuestNode], _Answer]) -> dict[str, _Answer]:
        """Do it on all guests at once."""
        with ThreadPoolExecutor(max_workers=len(self.site.nodes)) as pool:
            answers = pool.map(work, self.site.nodes)
            return dict(zip((node.name for node in self.site.nodes), answers, strict=True))

    def last_words(self) -> str:
        """What each guest's programs and kernel said last."""
        said: list[str] = []
        for node in self.site.nodes:
            try:
                said += [f"{node.name}: {line}" for line in node.last_words().splitlines()]
            except RailyardError as error:
                said.append(f"{node.name}: {error}")
            console = node.guest.console.read_text(errors="replace").splitlines()[-3:]
            said += [f"{node.name} console: {line}" for line in console]
        return "\n".join(said)


def tell_inside() -> int:
    """The story, as the first process of its namespaces; 0 when every step held."""
    spec, plan = load_plan(SITE)
    programs = {**ensure_binaries(), "registry": registry_program()}
    folder = FOLDER / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    site = ClusterSite[GuestNode](folder, programs, programs_folder(), tree_folder(), spec, plan)
    story = Story(site, programs_folder().parent / "images", ensure_image(NODES), plan)
    steps = story.steps()
    told: list[Told] = []
    try:
        told = tell(steps, LOG, story.last_words)
    finally:
        site.stop()
    return close(told, len(steps), LOG)


def main() -> int:
    """Make what is missing, run the story in namespaces; 0 when every step held."""
    if INSIDE in sys.argv:
        return tell_inside()
    try:
        ensure_tools()
        if missing := lacks():
            raise DeviceError(missing)
        ensure_binaries()
        ensure_programs()
        ensure_tree()
        busybox()
        registry_program()
        ensure_image(NODES)
        FOLDER.mkdir(parents=True, exist_ok=True)
        return run_inside(["-m", "lab.vm.pods_story", INSIDE], PROJECT, FOLDER, DEADLINE_S)
    except RailyardError as error:
        print(f"railyard: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
