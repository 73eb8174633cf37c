"""A cloud before anything is made there: what its API says of types, images, quota and room."""

from __future__ import annotations

from collections.abc import Mapping

from components.cloud.calls import PREFLIGHT_STEP
from components.cloud.errors import CloudError
from components.cloud.observe import OBSERVE_PATIENCE
from components.cloud.plan import CloudPlan
from components.cloud.preflight import Topic, look
from components.cloud.request import open_api, previous_of_text
from components.core.finding import Finding
from components.drift.applied import Applied

CLOUD = "the cloud"
_WHAT: Mapping[Topic, str] = {
    "name": "the cloud has an object of a planned name, which this stack did not make.",
    "location": "the cloud has no such location.",
    "type": "the cloud has no such instance type.",
    "image": "the cloud has no such image.",
    "capacity": "the location has too few instances of a type to give.",
    "quota": "the project's quota is too small.",
    "infiniband": "the InfiniBand network has too little room.",
}


def look_at_cloud(
    plan: CloudPlan, secrets: Mapping[str, str], applied: Applied
) -> tuple[Finding, ...]:
    """What the first step of an update would refuse, in its words; read-only."""
    recorded = applied.step(PREFLIGHT_STEP)
    previous = previous_of_text(recorded.stdout if recorded else "")
    try:
        api = open_api(plan.api, secrets, OBSERVE_PATIENCE)
        lacks = look(api, plan.preflight, previous)
    except CloudError as error:
        return (_unread(error),)
    return tuple(_lack(topic, words) for topic, words in lacks)


def _lack(topic: Topic, words: str) -> Finding:
    actual, _, fix = words.partition(": ")
    default = "correct environment.provision, or see what the cloud's console has"
    return Finding(CLOUD, f"cloud-{topic}", _WHAT[topic], actual, "as planned", fix or default)


def _unread(error: CloudError) -> Finding:
    words = " ".join(str(error).split())
    what = "the cloud's API does not say what there is."
    fix = "look at environment.provision and at the two secrets of its API"
    # A refusal is an answer: the keys are wrong, or may not do this.
    severity = "problem" if error.status in {401, 403} else "unreachable"
    return Finding(CLOUD, "cloud-api", what, words, "an answer", fix, severity)
