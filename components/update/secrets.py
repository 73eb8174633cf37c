"""Find the secrets that a site needs, and read those from outside the stack.

Those come from environment variables, or from a program such as a vault's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from components.core.errors import UsageError
from components.core.limits import TooLongError, run_within
from components.core.problem import SpecPath, render_path
from components.model.cluster import ClusterSpec
from components.model.secret_refs import list_secrets
from components.model.units import SecretRef


def secret_names(spec: ClusterSpec) -> tuple[str, ...]:
    """Every secret of the stack that the file refers to, sorted, once each."""
    return tuple(sorted({own for reference, _ in list_secrets(spec) if (own := reference.secret)}))


DEADLINE_S: Final = 60.0
"""For one program: a vault answers in about a second, and the program cannot ask a question."""
MOST_BYTES: Final = 1 << 20
"""Most bytes from a program: the longest secret is a kubeconfig with certificates, some 20 KB."""
SHOWN: Final = 200
"""Characters of the first stderr line that an error shows: enough for `permission denied`, without
a flood in a pipeline's log."""
SEVERAL_LINES: Final = frozenset({"private_key", "ssh_private_key", "kubeconfig", "signing_key"})
"""Keys of the file whose secrets may have several lines."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONG_ENOUGH: Final = 4
"""Shortest secret that is masked: masking a `1` would reveal that the secret is 1."""
Named: TypeAlias = Iterable[tuple[SecretRef, SpecPath]]


def outside_secrets(
    spec: ClusterSpec, environ: Mapping[str, str], stack: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the secrets that the file takes from the environment or a program.

    The secrets of the stack are checked too.

    Raises:
        UsageError: A variable is unset, a program prints nothing, or a one-line secret has several
            lines; the error lists all faults.
    """
    named = tuple(list_secrets(spec))
    found = resolve(named, environ, known=stack or {})
    demand_one_line(named, {**(stack or {}), **found})
    return found


def demand_one_line(named: Named, values: Mapping[str, str]) -> None:
    """Refuse a blank password or token, and one with a line break or a control character.

    A host step's stdin has sudo's password first and settings after it, so a second line would
    become a setting.

    Raises:
        UsageError: See above; the text does not show the value.
    """
    wrong: dict[str, str] = {}
    for reference, path in named:
        value = values.get(reference.name, "-") if SEVERAL_LINES.isdisjoint(path) else "-"
        lines = len(value.splitlines())
        reasons = (
            (lines > 1, f"has {lines} lines, and one is meant"),
            (value != value.rstrip("\r\n"), "ends with a line break"),
            (not value.strip(), "is blank"),
            (_CONTROL.search(value), "has a control character"),
        )
        why = next((words for found, words in reasons if found), "")
        if why:
            wrong[reference.name] = (
                f"{render_path(path)}: the secret {why}. Nothing was contacted.\n"
                "  fix    store the password or token alone, for example with `printf %s`"
            )
    if wrong:
        raise UsageError("\n".join(wrong.values()))


def resolve(
    references: Named,
    environ: Mapping[str, str],
    known: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Read each source once.

    Secrets of the stack are skipped. No error shows a secret of `known`.

    Returns:
        Name (`SecretRef.name`) to value.

    Raises:
        UsageError: See `outside_secrets`. The text does not show the value.
    """
    found: dict[str, str] = {}
    failed: dict[str, str] = {}
    for reference, path in references:
        name = reference.name
        if reference.secret is not None or name in found or name in failed:
            continue
        try:
            found[name] = _value(reference, environ)
        except UsageError as error:
            failed[name] = f"{render_path(path)}: {error}"
    text = "\n".join(failed.values())
    values = (*(known or {}).values(), *found.values())
    lines = {line for value in values for line in value.splitlines()}
    for line in sorted(lines, key=len, reverse=True):
        text = text.replace(line, "[secret]") if len(line) >= _LONG_ENOUGH else text
    if text:
        raise UsageError(text)
    return found


def _value(reference: SecretRef, environ: Mapping[str, str]) -> str:
    name, words = reference.env, reference.command or ()
    value = run_program(words).rstrip("\r\n") if name is None else environ.get(name, "")
    if value:
        return value
    if name is None:
        what = f"`{_shown(words)}` printed nothing, and its output is the secret"
        fix = "run it yourself"
    else:
        unset = "empty" if name in environ else "not set"
        what = f"the environment variable {name} is {unset}"
        fix = f"export {name} in the shell that runs this"
    raise UsageError(f"{what}. Nothing was contacted.\n  fix    {fix}")


def _shown(words: tuple[str, ...]) -> str:
    """Show only the program: an argument may hold a token, and pipeline logs show this text."""
    return f"{words[0]} …" if len(words) > 1 else "".join(words)


def run_program(words: tuple[str, ...]) -> str:
    """Run a program without a shell or input, and keep its output private.

    Raises:
        UsageError: It is missing, fails, prints no text or more than MOST_BYTES, or takes longer
            than DEADLINE_S.
    """
    stderr = ""
    try:
        status, printed, errors = run_within(words, DEADLINE_S, MOST_BYTES)
    except TooLongError as error:
        what, fix = f": {error}, and was ended", "name a program that prints the secret alone"
    except TimeoutError:
        what = f" did not end within {DEADLINE_S:g} s, and was ended"
        fix = "log in to the vault first: it gets no input here"
    except OSError as error:
        what = f" cannot be run: {error.strerror}"
        fix = f"install {words[0]}, or write its whole path"
    else:
        said = (errors.decode(errors="replace").strip().splitlines() or ["(nothing)"])[0]
        what, stderr = f" ended with status {status}", f"  stderr {said[:SHOWN]}\n"
        fix = "run it yourself until it prints the secret"
        if not status:
            try:
                return printed.decode()
            except UnicodeDecodeError:
                what, stderr, fix = " printed no text in UTF-8", "", ""
    fix = f"\n{stderr}  fix    {fix}" if fix else ""
    raise UsageError(f"`{_shown(words)}`{what}. Nothing was contacted.{fix}")
