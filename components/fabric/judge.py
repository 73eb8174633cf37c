"""`railyard device judge`: read the output of a plain exec, and fail if the exec failed.

A command of Pulumi's succeeds with the exit status, which means nothing on a switch's own command
line. So the next step reads the output, and nothing behind it runs unless it is as expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from components.core.errors import DeviceError, UsageError
from components.fabric.device import parse_request
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.moves import SwitchEvidence, dump_evidence
from components.fabric.systems import driver_of
from components.fabric.targets import digest_of, is_expected
from components.remote.step import render_request

OUTPUT_VARIABLE: Final = "RAILYARD_OUTPUT"
"""The output of the exec. It is not on stdin, because a preview shows the wanted state there."""


def judge_request(plan: SwitchPlan, kind: Literal["apply", "save"], text: str, note: str) -> str:
    """The request of a judge; it holds the watched state of an apply, to show drift."""
    return render_request(
        plan.endpoint,
        os=plan.os,
        desired=plan.desired.model_dump(mode="json"),
        repair=note,
        judges={"kind": kind, "text": digest_of(text)},
    )


def run_judge(text: str, environ: Mapping[str, str]) -> str:
    """Judge an exec's output; the evidence cannot say which settings changed.

    Raises:
        UsageError: The request is invalid, or the output is missing.
        DeviceError: The output holds a refusal, or differs from the output of a good exec.
    """
    request = parse_request(text, {})
    if request.judges is None or OUTPUT_VARIABLE not in environ:
        raise UsageError(
            f"{request.endpoint.where}: nothing to judge: the request needs `judges`, and "
            f"{OUTPUT_VARIABLE} the output of the exec"
        )
    output = environ[OUTPUT_VARIABLE]
    saving = request.judges.kind == "save"
    refusal = driver_of(request.os).find_refusal(output)
    if refusal is not None:
        raise DeviceError(
            f"{request.endpoint.where} refused {'to save' if saving else 'a line of the exec'}\n"
            f"  switch  {refusal}\n{_result(saving=saving)}"
        )
    if not saving and not is_expected(request.os, output):
        raise DeviceError(
            f"{request.endpoint.where} answered the exec with a text that tells no success\n"
            f"  switch  {output.strip() or 'nothing'}\n{_result(saving=False)}"
        )
    device, desired = request.endpoint.device, request.desired
    return dump_evidence(SwitchEvidence(device, (), 0, (), saved=saving, desired=desired))


def _result(*, saving: bool) -> str:
    if saving:
        return "  result  it is in force and not saved; the next update sends and saves it again"
    return (
        "  result  not saved: a reboot restores the previous configuration. Accepted lines may be "
        "in force\n"
        "  fix     correct the lines that the switch refused, then update again: the whole text is "
        "sent once more"
    )
