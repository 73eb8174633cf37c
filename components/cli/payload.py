"""`railyard payload keys`: the command of an update's key step.

It makes the two SSH key pairs of a payload once; the stack's state keeps them as a secret.
"""

from __future__ import annotations

import base64
from typing import Annotated, Final

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from components.cli.app import command_app, say

PAIRS: Final = ("container", "host")
"""From container to container, through the forced command; and from host to host."""


def make_keys(comment: str) -> str:
    """Two new ed25519 pairs as `<pair>.private=` and `<pair>.public=` lines.

    A value is the whole file in OpenSSH's form, as base64; a shell script can decode it.

    Args:
        comment: Ends the public keys; it shows a reader of authorized_keys their origin.
    """
    lines: list[str] = []
    for pair in PAIRS:
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        lines.append(_line(f"{pair}.private", private))
        lines.append(_line(f"{pair}.public", public + f" railyard-{pair}@{comment}\n".encode()))
    return "\n".join(lines)


def _line(name: str, content: bytes) -> str:
    return f"{name}={base64.b64encode(content).decode()}"


app = command_app("Called by the step of the containers' SSH keys.")


@app.callback()
def describe() -> None:
    """Called by the step of the containers' SSH keys."""


@app.command()
def keys(
    stack: Annotated[str, typer.Option(help="ends the comment of the public keys")],
) -> None:
    """Print two new SSH key pairs; an update keeps them as a secret of the stack."""
    say(make_keys(stack))
