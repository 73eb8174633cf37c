"""Refusals where a reference to a secret belongs; a value that may be one is never shown."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from components.core.problem import Place, Problem, SpecPath, render_path

SOURCES: Final = ("secret", "env", "command")
_NEAR: Final = 0.8
_SEALED: Final = "secure"
"""What a stack file has before a value; as near to `secret` as its slips are."""
_OTHER_WORDS: Final = {
    "name": "secret",
    "key": "secret",
    "config": "secret",
    "environment": "env",
    "env_var": "env",
    "variable": "env",
    "cmd": "command",
    "exec": "command",
    "run": "command",
    "vault": "command",
    "file": "command",
    "path": "command",
}
"""What others call the three, to what it is called here."""
_PATH: Final = re.compile(
    r"(~|\.{1,2}|\$HOME|\$\{HOME\}|/(home|root|etc|Users|opt|var|tmp|mnt|srv|run|usr))/[\w.@+/-]+"
)
"""Beginnings that no password or key has by chance; `/` alone is one of base64's letters."""
_FORMS: Final = "{secret: NAME}, {env: NAME} or {command: [PROGRAM, ARGUMENT]}"


def no_source(path: SpecPath) -> Problem:
    """A key that is none of the three; one that is near one of them is a slip, and no secret."""
    key = str(path[-1])
    near = get_close_matches(key.lower(), SOURCES, 1, _NEAR)
    meant = _OTHER_WORDS.get(key.lower()) or next(iter(near), None)
    if meant is None or key.lower() == _SEALED:
        return open_secret(path)
    return Problem(
        rule="unknown-key",
        what=f"`{key}` is not a key of {render_path(path[:-1])}. Did you mean `{meant}`?",
        where=(Place(path, "(not shown)"),),
        fix=f"correct the spelling: {_FORMS}.",
    )


def secret_path(path: SpecPath, value: object) -> Problem | None:
    """The path of a file where its content, by reference, belongs; None for any other value."""
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        return None
    name = _name_for(path)
    return Problem(
        rule="wrong-type",
        what=f"{render_path(path)} is a path: {value}; a reference to a secret is expected.",
        where=(Place(path, value),),
        fix=f"write {{secret: {name}}}, and put the file's content into the stack: `pulumi config"
        f" set --secret railyard:{name} < {value}`; or {{command: [cat, {_whole(value)}]}}"
        f"{', or agent: true in its place' if path[-1] == 'private_key' else ''}.",
    )


def _name_for(path: SpecPath) -> str:
    key = str(path[-1])
    return f"ssh_{key}" if key in {"private_key", "passphrase"} else key


def _whole(value: str) -> str:
    """Without a shell nothing replaces `~`."""
    return re.sub(r"^(~|\$HOME|\$\{HOME\})/", "/home/NAME/", value)


def open_secret(path: SpecPath) -> Problem:
    """A value where a reference belongs; reports get around, so it is not shown."""
    return Problem(
        rule="wrong-type",
        what=f"{render_path(path)} holds a value where a reference to a secret is expected.",
        where=(Place(path, "(not shown)"),),
        fix="write {secret: NAME} and keep the value encrypted: `pulumi config set --secret "
        "railyard:NAME`; or {env: NAME}, or {command: [PROGRAM, ARGUMENT]}. If it was the real one,"
        " change it on the device: it has been readable.",
    )
