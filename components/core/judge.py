"""A judge: a function that yields findings, when it runs, and what must be valid before it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Literal, TypeAlias, TypeVar

from components.core.problem import Finding
from components.core.record import record, replace

When: TypeAlias = Literal["check", "preflight", "update"]
Subject = TypeVar("Subject")
_F = TypeVar("_F", bound=Callable[..., object])
_NEEDS = "__needs__"


@record
class Judge(Generic[Subject]):
    """One judge of a site, or of the situation of an update."""

    check: Callable[[Subject], Iterable[Finding]]
    name: str
    text: str = ""
    """Its demand and the reason, for the reference."""
    needs: frozenset[str] = frozenset()
    """The parts of the file that it reads. If one of them is wrong or missing, the judge does not
    run, because it would report false faults."""
    when: frozenset[When] = frozenset({"check"})

    def findings(self, subject: Subject) -> Iterator[Finding]:
        """Run it; a finding without a rule gets the judge's name."""
        for found in self.check(subject):
            yield found if found.rule else replace(found, rule=self.name)


def needs(*parts: str) -> Callable[[_F], _F]:
    """Declare the parts of the file that a rule searches in: `@needs("rails", "names")`."""

    def mark(check: _F) -> _F:
        setattr(check, _NEEDS, frozenset(parts))
        return check

    return mark


def describe(check: Callable[..., object]) -> tuple[str, str, frozenset[str]]:
    """Return the name, the text and the needs of a function.

    `check_mtu_chain` is `mtu-chain`, and its docstring is the text.
    """
    name = str(getattr(check, "__name__", "")).partition("_")[2].replace("_", "-")
    return name, inspect.getdoc(check) or "", getattr(check, _NEEDS, frozenset())
