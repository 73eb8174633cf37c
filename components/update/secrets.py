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
from components.core.templates import fault_text
from components.model.cluster import ClusterSpec
from components.model.places import list_secrets
from components.model.units import SecretRef

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


def secret_names(spec: ClusterSpec) -> tuple[str, ...]:
    """Every secret of the stack that the file refers to, sorted, once each."""
    return tuple(sorted({own for reference, _ in list_secrets(spec) if (own := reference.secret)}))


def outside_secrets(
    spec: ClusterSpec, environ: Mapping[str, str], stack: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the secrets that the file takes from the environment or a program.

    A UsageError lists unset variables, silent programs, and passwords of several lines.
    """
    named = tuple(list_secrets(spec))
    found = resolve(named, environ, known=stack or {})
    demand_one_line(named, {**(stack or {}), **found})
    return found


def demand_one_line(named: Named, values: Mapping[str, str]) -> None:
    """Refuse a blank password or token, and one with a line break or a control character.

    A host step's stdin has sudo's password first and settings after it, so a second line would
    become a setting. The text of the UsageError does not show the value.
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
            place = render_path(path)
            wrong[reference.name] = fault_text(__file__, "wrong-secret", place=place, why=why)
    if wrong:
        raise UsageError("\n".join(wrong.values()))


def resolve(
    references: Named, environ: Mapping[str, str], known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Read each source once, and return its value by `SecretRef.name`.

    Secrets of the stack are skipped. No UsageError shows a value, or a secret of `known`.
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
    if not value:
        row = "no-output" if name is None else "no-variable"
        unset = "empty" if name in environ else "not set"
        raise UsageError(fault_text(__file__, row, program=_shown(words), name=name, unset=unset))
    return value


def _shown(words: tuple[str, ...]) -> str:
    """Show only the program: an argument may hold a token, and pipeline logs show this text."""
    return f"{words[0]} …" if len(words) > 1 else "".join(words)


def run_program(words: tuple[str, ...]) -> str:
    """Run a program without a shell or input, within DEADLINE_S, and keep its output private.

    UsageError: it is missing, fails, prints no text, or more than MOST_BYTES.
    """
    more: dict[str, object] = {"program": _shown(words)}
    try:
        status, printed, errors = run_within(words, DEADLINE_S, MOST_BYTES)
        if not status:
            return printed.decode()
        said = (errors.decode(errors="replace").strip().splitlines() or ["(nothing)"])[0]
        row, more["status"], more["said"] = "program-fails", status, said[:SHOWN]
    except TooLongError as error:
        row, more["error"] = "program-floods", error
    except TimeoutError:
        row, more["deadline"] = "program-hangs", f"{DEADLINE_S:g}"
    except OSError as error:
        row, more["error"], more["file"] = "program-absent", error.strerror, words[0]
    except UnicodeDecodeError:
        row = "program-bytes"
    raise UsageError(fault_text(__file__, row, **more))
