"""In which order the engine works on two runs of one program: updates first, then what is gone.

Source: pulumi/pkg v3.250.0. `deployment_executor.go` deletes after the program has ended;
`step_generator.go`, `ScheduleDeletes`, orders what is deleted by the edges between two such
resources as the last state has them, and looks through none that stays.
"""

from __future__ import annotations

from components.testing import Graph


def custom(graph: Graph) -> set[str]:
    """The names of all resources that do something."""
    return {item.name for item in graph.resources if item.custom}


def deletions(before: Graph, after: Graph) -> list[set[str]]:
    """What a run deletes, in the rounds in which the engine does it."""
    gone = custom(before) - custom(after)
    left, rounds = set(gone), list[set[str]]()
    while left:
        free = {name for name in left if not left & {*before.named(name).dependencies}}
        left -= free
        rounds.insert(0, free)
    return rounds


def waits_for(graph: Graph, later: str, earlier: str) -> bool:
    """Whether the engine works on one resource only after another one."""
    todo, seen = [later], set[str]()
    while todo:
        current = todo.pop()
        if current == earlier:
            return True
        if current not in seen:
            seen.add(current)
            todo += graph.named(current).dependencies
    return False
