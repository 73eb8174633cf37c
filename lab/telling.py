"""A story of the lab: steps one after the other, each told as it ends, and a table of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from components.core.errors import RailyardError
from components.core.plain_text import counted
from components.core.record import record


@record
class Told:
    """One step as the table shows it."""

    name: str
    seconds: float
    result: str
    good: bool


def tell(
    steps: Sequence[tuple[str, Callable[[], str]]], log: Path, last_words: Callable[[], str]
) -> list[Told]:
    """Run all steps; the first that fails is the last.

    Args:
        steps: Name to what is done; it returns its result.
        log: Also gets what is printed.
        last_words: What is added to a step that failed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    told: list[Told] = []
    for name, step in steps:
        begun = time.monotonic()
        try:
            result, good = step(), True
        except RailyardError as error:
            result, good = f"{error}\n{last_words()}", False
        told.append(Told(name, time.monotonic() - begun, result, good))
        _say(told[-1], log)
        if not good:
            break
    return told


def close(told: Sequence[Told], planned: int, log: Path) -> int:
    """Print the table; 0 when every step held, else 1."""
    table = render_table(told, planned)
    print(table, flush=True)
    with log.open("a") as file:
        file.write(table + "\n")
    return 0 if len(told) == planned and all(each.good for each in told) else 1


def render_table(told: Sequence[Told], planned: int) -> str:
    """Step, seconds, result; what did not run is counted."""
    lines = ["", f"{'seconds':>8}  {'result':<7} step"]
    lines += [
        f"{each.seconds:8.1f}  {'ok' if each.good else 'FAILED':<7} {each.name}" for each in told
    ]
    lines.append(f"{sum(each.seconds for each in told):8.1f}          all")
    if len(told) < planned:
        lines.append(f"{counted(planned - len(told), 'step')} did not run")
    return "\n".join(lines)


def _say(told: Told, log: Path) -> None:
    word = "ok" if told.good else "FAILED"
    indented = "".join(f"         {line}\n" for line in told.result.splitlines())
    text = f"{word:<7}{told.seconds:7.1f} s  {told.name}\n{indented}"
    print(text, flush=True)
    with log.open("a") as file:
        file.write(text + "\n")
