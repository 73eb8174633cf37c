"""Rules on the stack file around the site: its secrets, and the switches of a run."""

from __future__ import annotations

from components.checks.access import list_secrets
from components.checks.rule import Finding, Findings, at
from components.core.problem import Place
from components.model.cluster import ClusterSpec
from components.reading.load import SETTINGS, StackSecrets
from components.reading.wording import did_you_mean

_SITES = frozenset({"cluster", "site"})


def check_stack_key(spec: ClusterSpec, secrets: StackSecrets) -> Findings:
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


def check_secret_value(spec: ClusterSpec, secrets: StackSecrets) -> Findings:
    """Each secret that the site names is in the stack's configuration, encrypted.

    It is checked only for a stack file; a plain site file holds no secrets. What comes from the
    environment or a program is asked for when it is needed.
    """
    places: dict[str, list[Place]] = {}
    for ref, path in list_secrets(spec):
        if ref.secret is not None:
            places.setdefault(ref.secret, []).append(at(path, ref.secret))
    for name, where in places.items():
        command = f"`pulumi config set --secret railyard:{name}`"
        if name in secrets.in_clear:
            yield Finding(
                f"the secret railyard:{name} is in the stack file in clear text.",
                tuple(where),
                f"set it again with {command}, and change it on the device: it has been readable.",
            )
        elif name not in secrets.encrypted and secrets.complete:
            yield Finding(
                f"the secret railyard:{name} is not in the stack's configuration.",
                tuple(where),
                f"run {command}.",
            )
