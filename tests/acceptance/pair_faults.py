"""A fabric with one or two faults, and the pair tests that it lets through. It knows no judge.

Every rail has its own leaves and eight spines. A round pairs all hosts at once and sends one way,
then the other, from host memory and from GPU memory. A test between leaves has 16 connections, each
hashed to a spine; an uplink that is too full slows what is on it. Every rate varies by 3 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

RAILS = 4
SPINES = 8
FLOWS = 16
HOSTS_PER_LEAF = {8: 4, 32: 8, 128: 8}
HEADROOM = 1.25
"""Capacity of the uplinks of a leaf over that of its hosts."""
BEST = 0.975
"""What a sound test reaches of its line rate."""
SPREAD = 0.03
LOST_BY_CHANCE = 0.0005
"""Tests that end for a reason outside of the fabric, such as a pod that is evicted."""


@dataclass(frozen=True)
class Seen:
    """One test as a person at the console would see it."""

    name: str
    sender: int
    receiver: int
    rail: int
    gpu_memory: bool
    share: float | None
    silent: tuple[int, ...]
    """Its hosts whose planned switch port counted nothing of it."""


@dataclass
class Fault:
    """What is broken: how it changes tests, and which counters show it."""

    name: str
    truth: frozenset[tuple[str, str]]
    """What a technician would find: the kind and name of each broken part."""
    touch: Callable[[Random, Test], float] = lambda _random, _test: 1.0
    """Test to what is left of its rate; 0 for a test that ends without one."""
    bad_spine: tuple[int, int, int] | None = None
    """Rail, leaf and spine of a bad uplink."""
    counters: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    swapped: frozenset[int] = frozenset()
    """Hosts that are plugged into each other's port of rail 0."""
    near: frozenset[tuple[str, str]] = frozenset()
    """What is right, and not exact."""


@dataclass(frozen=True)
class Test:
    """One test before it runs."""

    __test__ = False

    sender: int
    receiver: int
    rail: int
    gpu_memory: bool
    crosses: bool
    leaves: tuple[int, int]


class Fabric:
    """Hosts, rails and leaves of one size."""

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        self.per_leaf = HOSTS_PER_LEAF[hosts]
        self.leaves = hosts // self.per_leaf

    def leaf(self, host: int) -> int:
        return host // self.per_leaf

    def run(self, random: Random, faults: list[Fault], rounds: int) -> list[Seen]:
        """So many rounds of random pairs, from host memory and from GPU memory."""
        seen: list[Seen] = []
        for number in range(rounds):
            order = list(range(self.hosts))
            random.shuffle(order)
            pairs = list(zip(order[::2], order[1::2], strict=True))
            for gpu_memory in (False, True):
                for way in (1, -1):
                    turn = [pair[::way] for pair in pairs]
                    seen += self._phase(random, faults, turn, f"{number}-{way}", gpu_memory)
        return seen

    def _phase(
        self,
        random: Random,
        faults: list[Fault],
        pairs: list[tuple[int, ...]],
        label: str,
        gpu_memory: bool,  # noqa: FBT001 - as the field
    ) -> list[Seen]:
        tests = [
            Test(a, b, rail, gpu_memory, self.leaf(a) != self.leaf(b), (self.leaf(a), self.leaf(b)))
            for a, b in pairs
            for rail in range(RAILS)
        ]
        spines = [random.choices(range(SPINES), k=FLOWS) if test.crosses else [] for test in tests]
        up, down = ([0] * (RAILS * self.leaves * SPINES) for _ in range(2))
        for test, used in zip(tests, spines, strict=True):
            here, there = (self._uplink(test.rail, leaf, 0) for leaf in test.leaves)
            for spine in used:
                up[here + spine] += 1
                down[there + spine] += 1
        left = (self._left(faults, up), self._left(faults, down))
        senders = {a for a, _ in pairs}
        return [
            self._test(random, faults, test, self._flows(test, used, left), senders, label)
            for test, used in zip(tests, spines, strict=True)
        ]

    def _test(
        self,
        random: Random,
        faults: list[Fault],
        test: Test,
        flows: float,
        senders: set[int],
        label: str,
    ) -> Seen:
        rate = BEST / FLOWS * flows if test.crosses else BEST
        for fault in faults:
            rate *= fault.touch(random, test)
        rate *= random.gauss(1, SPREAD)
        ends = random.random() < LOST_BY_CHANCE or rate <= 0
        memory = "gpu" if test.gpu_memory else "host"
        return Seen(
            name=f"{memory}-{label}-rail-{test.rail}-{test.sender}-{test.receiver}",
            sender=test.sender,
            receiver=test.receiver,
            rail=test.rail,
            gpu_memory=test.gpu_memory,
            share=None if ends else rate,
            silent=tuple(
                host
                for fault in faults
                if test.rail == 0 and len({*fault.swapped} & senders) == 1
                for host in (test.sender, test.receiver)
                if host in fault.swapped
            ),
        )

    def _uplink(self, rail: int, leaf: int, spine: int) -> int:
        """Its place among all uplinks."""
        return (rail * self.leaves + leaf) * SPINES + spine

    def _left(self, faults: list[Fault], load: list[int]) -> list[float]:
        """What each connection on an uplink has left of its rate."""
        room = self.per_leaf * FLOWS / SPINES * HEADROOM
        left = [room / max(count, room) for count in load]
        for place in {fault.bad_spine for fault in faults if fault.bad_spine}:
            left[self._uplink(*place)] *= 0.1
        return left

    def _flows(self, test: Test, used: list[int], left: tuple[list[float], list[float]]) -> float:
        (up, down), (here, there) = left, (self._uplink(test.rail, leaf, 0) for leaf in test.leaves)
        return sum([min(up[here + spine], down[there + spine]) for spine in used])


def link(host: int, rail: int) -> tuple[str, str]:
    return ("link", f"gpu{host:03} rail-{rail}")


def leaf_name(leaf: int, rail: int) -> str:
    return f"leaf-{leaf}-{rail}"


def _at_link(
    name: str, rate: Callable[[Random], float], counter: str = ""
) -> Callable[[Random, Fabric], Fault]:
    def make(random: Random, fabric: Fabric) -> Fault:
        host, rail = random.randrange(fabric.hosts), random.randrange(RAILS)

        def touch(chance: Random, test: Test) -> float:
            through = test.rail == rail and host in (test.sender, test.receiver)
            return rate(chance) if through else 1.0

        place = link(host, rail)
        counters = {place: counter} if counter else {}
        return Fault(name, frozenset({place}), touch, counters=counters)

    return make


def _bad_uplink(random: Random, fabric: Fabric) -> Fault:
    rail, leaf, spine = (
        random.randrange(RAILS), random.randrange(fabric.leaves), random.randrange(SPINES)
    )  # fmt: skip
    place: tuple[str, str] = ("uplink", f"{leaf_name(leaf, rail)} swp{51 + spine}")
    counted: dict[tuple[str, str], str] = {}
    if random.random() < 0.7:
        counted[place] = "it counted 812 symbol errors"
    return Fault(
        "bad uplink",
        frozenset({place}),
        near=frozenset({("uplinks", leaf_name(leaf, rail))}),
        bad_spine=(rail, leaf, spine),
        counters=counted,
    )


def _slow_host(random: Random, fabric: Fabric) -> Fault:
    host, left = random.randrange(fabric.hosts), random.uniform(0.5, 0.8)
    return Fault(
        "host slow on all rails",
        frozenset({("host", f"gpu{host:03}")}),
        lambda _, test: left if host in (test.sender, test.receiver) else 1.0,
    )


def _slow_gpu(random: Random, fabric: Fabric) -> Fault:
    host, rail = random.randrange(fabric.hosts), random.randrange(RAILS)

    def touch(_: Random, test: Test) -> float:
        through = test.rail == rail and host in (test.sender, test.receiver)
        return 0.6 if through and test.gpu_memory else 1.0

    return Fault("GPU beside a NIC slow", frozenset({("gpu", link(host, rail)[1])}), touch)


def _no_pfc(random: Random, fabric: Fabric) -> Fault:
    """Where flows share an uplink, packets are dropped in place of paused, and sent again."""
    rail, leaf = random.randrange(RAILS), random.randrange(fabric.leaves)

    def touch(chance: Random, test: Test) -> float:
        through = test.crosses and test.rail == rail and leaf in test.leaves
        return chance.uniform(0.4, 0.9) if through and chance.random() < 0.7 else 1.0

    name = leaf_name(leaf, rail)
    counted = {
        ("uplink", f"{name} swp{51 + spine}"): "it counted 4100 discards" for spine in range(SPINES)
    }
    return Fault("PFC missing on a leaf", frozenset({("leaf", name)}), touch, counters=counted)


def _swapped_hosts(random: Random, fabric: Fabric) -> Fault:
    first = random.randrange(fabric.leaves) * fabric.per_leaf
    hosts = random.sample(range(first, first + fabric.per_leaf), 2)
    return Fault(
        "cables of two hosts swapped",
        frozenset(link(host, 0) for host in hosts),
        swapped=frozenset(hosts),
    )


def _swapped_rails(random: Random, fabric: Fabric) -> Fault:
    host, rails = random.randrange(fabric.hosts), random.sample(range(RAILS), 2)

    def touch(_: Random, test: Test) -> float:
        return 0.0 if test.rail in rails and host in (test.sender, test.receiver) else 1.0

    return Fault(
        "cables of two rails swapped", frozenset(link(host, rail) for rail in rails), touch
    )


SINGLE: tuple[Callable[[Random, Fabric], Fault], ...] = (
    _at_link("dead cable", lambda _: 0.0),
    _at_link("flapping NIC", lambda chance: 0.0 if chance.random() < 0.35 else 1.0),
    _at_link("link at 50 %", lambda _: 0.5),
    _at_link("link at 80 %", lambda _: 0.8),
    _at_link("link with CRC errors", lambda chance: chance.uniform(0.3, 0.8), "9000 CRC errors"),
    _at_link("wrong MTU on a port", lambda _: 0.0, "600 discards"),
    _bad_uplink,
    _slow_host,
    _slow_gpu,
    _no_pfc,
    _swapped_hosts,
    _swapped_rails,
)  # fmt: skip
NONE = "no fault"
TWO = "two faults at once"


def inject(random: Random, fabric: Fabric, kind: int) -> tuple[str, list[Fault]]:
    """The faults of a run: one of a kind, two of different kinds, or none."""
    if kind < len(SINGLE):
        fault = SINGLE[kind](random, fabric)
        return fault.name, [fault]
    if kind == len(SINGLE):
        return TWO, [make(random, fabric) for make in random.sample(SINGLE[:10], 2)]
    return NONE, []
