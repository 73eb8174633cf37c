"""Secrets that are not in the stack: from the environment, or from a program such as a vault's."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from components.checks.access import list_secrets
from components.core.errors import UsageError
from components.core.problem import SpecPath, render_path
from components.model.cluster import ClusterSpec
from components.model.units import SecretRef

DEADLINE_S: Final = 60.0
"""For one program: a vault answers in about a second, and nothing here can answer a question."""
SHOWN: Final = 5
"""Last lines of a failed program's stderr in the error."""
Call: TypeAlias = Callable[[tuple[str, ...]], str]
Named: TypeAlias = Iterable[tuple[SecretRef, SpecPath]]


def outside_secrets(spec: ClusterSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """The values of a site's secrets that its file takes from the environment or a program.

    Raises:
        UsageError: A variable is not set, or a program gives no value; all of them at once.
    """
    return resolve(list_secrets(spec), environ)


def resolve(
    references: Named, environ: Mapping[str, str], call: Call | None = None
) -> dict[str, str]:
    """Ask each source once.

    Args:
        references: Secrets with their places in the file; those of the stack are left alone.
        environ: The environment of who runs this.
        call: Runs a program and gives what it printed.

    Returns:
        Name (`SecretRef.name`) to value.

    Raises:
        UsageError: See `outside_secrets`. No value is in the text.
    """
    found: dict[str, str] = {}
    failed: dict[str, str] = {}
    for reference, path in references:
        name = reference.name
        if reference.secret is not None or name in found or name in failed:
            continue
        try:
            found[name] = _value(reference, environ, call or run_program)
        except UsageError as error:
            failed[name] = f"{render_path(path)}: {error}"
    if failed:
        raise UsageError("\n".join(failed.values()))
    return found


def _value(reference: SecretRef, environ: Mapping[str, str], call: Call) -> str:
    if reference.env is not None:
        value = environ.get(reference.env, "")
        if not value:
            raise UsageError(
                f"the environment variable {reference.env} is"
                f" {'empty' if reference.env in environ else 'not set'}. Nothing was contacted.\n"
                f"  fix    export {reference.env} in the shell that runs this"
            )
        return value
    value = call(reference.command or ()).rstrip("\r\n")
    if not value:
        raise UsageError(
            f"`{shlex.join(reference.command or ())}` printed nothing, and its output is the"
            " secret. Nothing was contacted.\n  fix    run it by hand"
        )
    return value


def run_program(words: tuple[str, ...]) -> str:
    """Run a program without a shell and without input; what it prints is shown to no one.

    Raises:
        UsageError: It is not there, fails, prints no text, or takes longer than DEADLINE_S.
    """
    shown = f"`{shlex.join(words)}`"
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{shown} did not end within {DEADLINE_S:g} s, and was ended. Nothing was contacted.\n"
            "  fix    log in to the vault first: it gets no input here"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{shown} cannot be run: {error.strerror}. Nothing was contacted.\n"
            f"  fix    install {words[0]}, or write its whole path"
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-SHOWN:]
        lines = "".join(f"\n  stderr {line}" for line in said or ["(nothing)"])
        raise UsageError(
            f"{shown} ended with status {done.returncode}. Nothing was contacted.{lines}\n"
            "  fix    run it by hand until it prints the secret"
        )
    try:
        return done.stdout.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{shown} printed no text in UTF-8. Nothing was contacted.") from None
