"""The end of a probe: what the lab's physics answers, as a log and an exit code."""

from __future__ import annotations

from components.core.errors import RailyardError
from components.core.record import record
from lab.cluster.document import Doc, as_doc, number_at, text_at
from lab.cluster.lab_link import LabLink
from lab.cluster.pod_view import Pod

_LAB_FAILED_CODE = 125


@record
class Ended:
    """The end of one pod."""

    pod: Pod
    log: str
    exit_code: int


def finish(pod: Pod, request: Doc, link: LabLink) -> tuple[Ended, Doc]:
    """Ask the physics for the end of a probe.

    Returns:
        The end of the pod, and the physics' whole answer; empty where it gave none.
    """
    try:
        reply = link.ask(request)
    except RailyardError as error:
        return Ended(pod, f"the lab cannot play this probe: {error}\n", _LAB_FAILED_CODE), {}
    result = as_doc(reply.get("result", reply))
    if "exit_code" not in result:
        text = "the lab daemon answered the probe without an exit code\n"
        return Ended(pod, text, _LAB_FAILED_CODE), {}
    return Ended(pod, text_at(result, "log"), number_at(result, "exit_code")), result
