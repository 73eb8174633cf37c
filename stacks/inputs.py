"""Wait for inputs of a component: a site is read and checked before its first resource exists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Final, TypeVar

import pulumi
from pulumi.runtime.sync_await import _sync_await  # pyright: ignore[reportPrivateUsage] - as `invoke` of the SDK waits

from components.core.errors import UsageError
from components.core.record import field, record

T = TypeVar("T")
_FIXES: Final = {
    "empty": "give their values; see that the variables behind them are set",
    "no text": "write the values in quotes",
}
"""What can be wrong with a secret's value, to the fix."""


def wait_for(value: pulumi.Input[T]) -> T | None:
    """Return the value of an input; None if a preview does not know it yet."""
    output = pulumi.Output.from_input(value)
    return _sync_await(output.future()) if _sync_await(output.is_known()) else None


@record
class GivenSecrets:
    """The secrets that a program hands over, instead of the stack's configuration."""

    outputs: Mapping[str, pulumi.Output[str]]
    texts: Mapping[str, str]
    """The values that are known; a preview may not know one that another resource makes."""
    plain: tuple[str, ...] = ()
    """The names of those that the program does not mark as secret; a policy can refuse them."""
    wrong: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names to what is wrong: `empty`, as from a variable of CI that is not set, or `no text`."""

    @property
    def unknown(self) -> bool:
        """Whether a preview does not know all of them yet."""
        return len(self.texts) + len(self.wrong) < len(self.outputs)

    def check(self, named: Collection[str], needed: Collection[str], config: pulumi.Config) -> None:
        """Compare the names with those in the site file, and with those that are needed.

        Raises:
            UsageError: The file does not have a name, or a secret is missing, empty or no text.
        """
        lines: list[str] = []
        if extra := sorted(self.outputs.keys() - {*named}):
            lines.append(
                f"the site file does not use these `secrets` of the Site: {', '.join(extra)}.\n"
                f"  fix    correct the names; the file uses {', '.join(sorted(named)) or 'none'}"
            )
        for what, fix in _FIXES.items():
            if names := sorted(name for name, wrong in self.wrong.items() if wrong == what):
                these = f"these `secrets` of the Site are {what}: {', '.join(names)}."
                lines.append(f"{these}\n  fix    {fix}")
        have = {*self.outputs, *(name for name in needed if config.get(name) is not None)}
        if missing := sorted({*needed} - have):
            lines.append(
                f"the site file needs secrets that are missing: {', '.join(missing)}.\n"
                f"  fix    set each one: pulumi config set --secret railyard:{missing[0]}"
                " (or add it to the `secrets` of a Site)"
            )
        if lines:
            raise UsageError("\n".join((*lines, "Nothing was touched.")))


def given_secrets(secrets: pulumi.Input[Mapping[str, pulumi.Input[str]]]) -> GivenSecrets:
    """Wait for the values that are known, and mark all of them as secret."""
    nulls = set[str]()
    if isinstance(secrets, Mapping):
        # A test's mock may give an output without a value, so only a written null is a mistake.
        nulls = {name for name, value in secrets.items() if value is None}  # pyright: ignore[reportUnnecessaryComparison] - a program without types
        each = {name: pulumi.Output.from_input(value) for name, value in secrets.items()}
    else:
        whole = pulumi.Output.from_input(secrets)
        names = _sync_await(whole.future(with_unknowns=True)) or {}
        each = {name: whole.apply(itemgetter(name)) for name in names}
    outputs = {name: pulumi.Output.secret(value) for name, value in each.items()}
    values: Mapping[str, object] = {name: wait_for(value) for name, value in outputs.items()}
    texts = {name: text for name, text in values.items() if isinstance(text, str) and text}
    wrong = {
        name: "no text" if value else "empty"
        for name, value in values.items()
        if name not in texts and (value is not None or name in nulls)
    }
    plain = tuple(name for name, value in each.items() if not _sync_await(value.is_secret()))
    return GivenSecrets(outputs, texts, plain, wrong)
