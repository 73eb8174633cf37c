"""One lab of the dev stack for all tests of this folder, and nothing of it left behind."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import pytest
from xdist.scheduler import LoadScopeScheduling

from components.core.record import record
from components.model.cluster import ClusterSpec
from components.model.places import each_ssh
from lab.up import choose_site, load_spec, play, start_lab
from tests.site.leftovers import (
    MARK,
    family,
    marked_processes,
    mount_points,
    mounts_under,
    wait_until_gone,
)
from tests.site.playground import (
    COMMAND_DEADLINE_S,
    PROJECT,
    STACK,
    Done,
    EndState,
    Playground,
    daemon_pid,
    lab_folder,
    run,
    take_snapshot,
)

OWN: Final = (".lab", ".pulumi", ".railyard")
"""What a person's own lab and stack keep in the clone."""
ASIDE: Final = PROJECT / "build" / "aside"
END_DEADLINE_S: Final = 15.0
UNDONE: Final = {
    "test_from_an_empty_folder_to_a_preview",
    "test_from_an_empty_folder_to_a_cluster_and_back",
    "test_one_edit_and_one_fault_come_to_rest",
    "test_destroy_puts_every_device_back",
    "test_an_engine_killed_at_four_points",
}
"""Tests that destroy what they played, and others: they take as long as all others together."""


class Lanes(LoadScopeScheduling):
    """Shares the tests between two workers, so that each brings the dev stack up once.

    In one lane it is looked at and repaired, in the other destroyed and made again.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "undone" if _function_of(nodeid) in UNDONE else "repaired"


def _function_of(nodeid: str) -> str:
    return nodeid.rpartition("::")[2].partition("[")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes | None:  # noqa: ANN401 - a type of xdist alone
    """The lanes, where tests of one file are to stay with one worker (lab.suite)."""
    return Lanes(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what has a lab of its own: that of the dev stack runs until the worker ends."""
    items.sort(key=_plays_the_dev_stack)


def _plays_the_dev_stack(item: pytest.Item) -> bool:
    fixtures = cast("Sequence[str]", getattr(item, "fixturenames", ()))
    return item.get_closest_marker("site") is not None and "site" in fixtures


def refuse_a_running_lab(spec: ClusterSpec, stack: str) -> None:
    for address in [ssh.address for _, ssh, _ in each_ssh(spec)]:
        with suppress(OSError), socket.create_connection((address, 2222), timeout=1):
            pytest.fail(
                f"a lab of stack {stack} is running ({address}:2222 answers), and these tests "
                "need its addresses; stop it first: make down"
            )


@contextmanager
def own_state_aside() -> Generator[None]:
    """Put a person's lab and stack aside, and back at the end, whatever happens."""
    if {str(PROJECT / name) for name in OWN} <= {*mount_points()}:
        yield  # they are these tests' own: `make test` mounted them (lab.suite)
        return
    if ASIDE.exists():
        names = " ".join(f"{ASIDE}/{name}" for name in OWN if (ASIDE / name).exists())
        pytest.fail(
            f"an earlier run of these tests was killed, and your lab lies in {ASIDE}. Put it "
            f"back: rm -rf {' '.join(OWN)}; mv {names} . ; rmdir {ASIDE}"
        )
    ASIDE.mkdir(parents=True)
    try:
        for name in OWN:
            _move(PROJECT / name, ASIDE / name)
        yield
    finally:
        for name in OWN:
            if (PROJECT / name).exists():
                _move(PROJECT / name, _last_run() / name)
            _move(ASIDE / name, PROJECT / name)
        ASIDE.rmdir()


def _last_run() -> Path:
    """Where the state of the last run is kept, for a person who looks into a failure."""
    folder = ASIDE.with_name("last-site-test")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _move(source: Path, target: Path) -> None:
    if source.exists():
        if target.exists():
            shutil.rmtree(target)
        source.rename(target)


def stop_and_check(mark: str, stack: str = STACK) -> None:
    """`make down`, and proof that no process and no mount of the lab or an engine is left."""
    lab = family(daemon_pid(stack)) + marked_processes(mark, PROJECT)
    own = {os.getpid(), *(parent.pid for parent in family(os.getpid()))}
    subprocess.run(
        [sys.executable, "-m", "lab.down", stack],
        cwd=PROJECT,
        check=True,
        timeout=COMMAND_DEADLINE_S,
    )
    later = marked_processes(mark, PROJECT)
    watched = [process for process in lab + later if process.pid not in own]
    left = wait_until_gone(watched, END_DEADLINE_S)
    assert not left, f"left running after make down: {left}"
    assert not mounts_under(lab_folder(stack)), "left mounted after make down"


@pytest.fixture(scope="session")
def mark() -> Generator[str]:
    """What tells these tests' processes from others; a person's own lab is put aside."""
    mark = uuid.uuid4().hex
    os.environ[MARK] = mark
    try:
        with own_state_aside():
            yield mark
    finally:
        del os.environ[MARK]


@pytest.fixture(scope="session")
def site(mark: str) -> Generator[Playground]:
    """The lab, before anything was ever applied to it."""
    spec = load_spec(choose_site([]))
    refuse_a_running_lab(spec, STACK)
    start_lab(spec, STACK)
    try:
        yield Playground(mark, take_snapshot())
    finally:
        stop_and_check(mark)


@contextmanager
def play_example(mark: str, example: str) -> Generator[Playground]:
    """The lab of an example or of one of its files, before anything was ever applied to it."""
    with play_site(mark, f"examples/{example}") as site:
        yield site


@contextmanager
def play_site(mark: str, argument: str) -> Generator[Playground]:
    """The same of what `SITE=` names, with the cluster of an owner where one exists already."""
    chosen = choose_site([argument])
    name, spec = chosen.stack, load_spec(chosen)
    refuse_a_running_lab(spec, name)
    try:
        play(chosen, spec)
        yield Playground(mark, take_snapshot(name), name, argument)
    finally:
        stop_and_check(mark, name)


@record
class FirstUp:
    """What the very first `make up` said, and what it led to."""

    done: Done
    work_tree_before: str
    end_state: EndState
    state: Any
    """What the engine kept of the stack: a JSON document."""


def work_tree() -> str:
    """What git sees of files that are changed or new."""
    return run(["git", "status", "--porcelain"], os.environ).must()


@pytest.fixture(scope="session")
def first_up(site: Playground) -> FirstUp:
    """The first update of all, on devices as they come from the factory."""
    before = work_tree()
    done = site.up()
    done.must()
    return FirstUp(done, before, site.end_state(), site.exported())


@pytest.fixture
def standing(site: Playground, first_up: FirstUp) -> Playground:
    """The lab with a good update behind it; a test leaves it as it found it."""
    del first_up
    if not site.resources():
        site.up().must()
    return site
