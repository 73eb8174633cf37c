"""`railyard evidence …` and `railyard payload keys`: the commands of an update's other steps.

Two are of acceptance. The step of the keys makes the two SSH key pairs of a payload once; the
stack's state keeps them as a secret.
"""

from __future__ import annotations

import base64
import os
import sys
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from components.acceptance import handover
from components.acceptance.evidence import parse_evidence
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report import archive
from components.acceptance.report.write import write_report
from components.cli.app import command_app, option, say
from components.remote.step import secrets_from

app = command_app("Called by the steps of acceptance.")
PAIRS: Final = ("container", "host")
"""From container to container, through the forced command; and from host to host."""
payload_app = command_app("Called by the step of the containers' SSH keys.")


@app.command()
def collect(number: Annotated[int, option("Number of the run.")]) -> None:
    """Run the probes of the request on standard input, and print their results."""
    # This imports the clients of hosts, switches and Kubernetes, which the gate does not need.
    from components.acceptance.collect.probe_runs import collect_evidence  # noqa: PLC0415 - see above

    asked = handover.parse_asked(sys.stdin.read())
    path, fix = archive.request_path(asked.stack, asked.request), f"run: pulumi up -s {asked.stack}"
    request = handover.parse_accept_request(archive.read_archived(path, asked.request, fix))
    stack, secrets, spec = request.stack, secrets_from(os.environ), request.acceptance.store
    keeps = None
    if spec and request.acceptance.policy.asked:
        from components.acceptance.report.store import open_signer, open_store  # noqa: PLC0415 - rare

        # The store must be writable before any probe runs.
        keeps = open_store(spec, secrets), open_signer(spec, secrets)
        keeps[0].check_writable(stack)
        for wrong in keeps[0].bring(stack):
            say(f"not counted: {wrong}", err=True)
    evidence = collect_evidence(request, number, secrets, archive.run_folder(stack, number))
    digest = archive.keep_evidence(stack, evidence)
    if keeps is not None:
        keeps[0].keep(stack, evidence, keeps[1])
    say(handover.tell(judge_evidence(evidence), stack, digest, keeps and spec), nl=False)


@app.command()
def gate(
    stack: Annotated[str, option("Stack whose folder the report goes to.")],
    *,
    fail: Annotated[bool, option("Whether the verdict is the exit code.", "--fail/--warn")] = True,
) -> None:
    """Judge the evidence on standard input, and write the report."""
    named = handover.parse_named(sys.stdin.read())
    evidence = parse_evidence(handover.read_proof(named, secrets_from(os.environ)))
    report = handover.as_of(judge_evidence(evidence), datetime.now(UTC), named.asked)
    accepted = archive.last_accepted(stack, named.run)
    before = judge_evidence(accepted) if accepted else None
    page = write_report(report, archive.run_folder(stack, named.run), before)
    say(f"{handover.render_short(report)}\nreport: {page}")
    if fail:
        raise typer.Exit(report.gate_code)


def make_keys(comment: str) -> str:
    """Two new ed25519 pairs as `<pair>.private=` and `<pair>.public=` lines.

    A value is the whole file in OpenSSH's form, as base64; a shell script can decode it. The
    comment ends the public keys; it shows a reader of authorized_keys their origin.
    """
    # Only here: the steps of acceptance start faster without this library.
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - see above

    openssh = form.PrivateFormat.OpenSSH
    lines: list[str] = []
    for pair in PAIRS:
        key = ed25519.Ed25519PrivateKey.generate()
        private = key.private_bytes(form.Encoding.PEM, openssh, form.NoEncryption())
        public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
        public += f" railyard-{pair}@{comment}\n".encode()
        lines.append(f"{pair}.private={base64.b64encode(private).decode()}")
        lines.append(f"{pair}.public={base64.b64encode(public).decode()}")
    return "\n".join(lines)


@payload_app.callback()
def describe() -> None:
    """Called by the step of the containers' SSH keys."""


@payload_app.command()
def keys(stack: Annotated[str, option("ends the comment of the public keys")]) -> None:
    """Print two new SSH key pairs; an update keeps them as a secret of the stack."""
    say(make_keys(stack))
