"""Rules on the stack file around the site: its secrets, and the switches of a run."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.access import list_secrets
from components.checks.rule import Finding
from components.core.problem import Place
from components.model.cluster import ClusterSpec
from components.reading.load import SETTINGS, StackSecrets
from components.reading.wording import did_you_mean

_SITES = frozenset({"cluster", "site"})


def check_stack_key(spec: ClusterSpec, secrets: StackSecrets) -> Iterator[Finding]:
    """Each `railyard:` key of a stack file is the site, a secret that it names, or a switch.

    A misspelt switch would silently do nothing. A secret that is not needed is only a warning.
    """
    wanted = {own for ref, _ in list_secrets(spec) if (own := ref.secret)}
    known = sorted({*SETTINGS, *wanted})
    for name in sorted((secrets.encrypted | secrets.in_clear) - _SITES):
        where = (_place(name, secrets),)
        choices = SETTINGS.get(name)
        if choices is not None:
            value = secrets.switches.get(name, "")
            if value not in choices:
                yield Finding(
                    f"railyard:{name} cannot be {value or 'a secret or a mapping'}."
                    f"{did_you_mean(value, choices)}",
                    where,
                    f"choose one of: {', '.join(choices)}.",
                )
        elif name not in wanted:
            hint = did_you_mean(name, known)
            needless = not hint and name in secrets.encrypted
            yield Finding(
                f"railyard:{name} is neither a switch nor a secret that the site names.{hint}",
                where,
                f"correct it, or remove it: `pulumi config rm railyard:{name}`.",
                "warning" if needless else "error",
            )


def _place(name: str, secrets: StackSecrets) -> Place:
    key = f"railyard:{name}"
    return Place(("config", key), None, secrets.file, secrets.lines.get(key))
