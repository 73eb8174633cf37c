"""`railyard device restore-release`: restore edited or deleted objects of a Helm release.

Helm itself does not: an upgrade fails if the definition of a live object is gone ("ensure CRDs are
installed first"), does not recreate definitions from a chart's folder `crds`, and compares a custom
resource with the previous chart and not with the live object (`pkg/kube/client.go`). So each object
is made or patched as the release's own record has it; the release and its revision stay.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from components.core.errors import DeviceError
from components.core.plain_text import plain_text
from components.core.record import record
from components.core.templates import fault_text
from components.core.to_json import to_json
from components.kubernetes.client import Calls, KubernetesCalls, fetch_kubeconfig
from components.kubernetes.live.compare import compare_object
from components.kubernetes.live.look import read_release
from components.kubernetes.live.read import Key, Live, Reader, ReleaseRef
from components.kubernetes.manifest import Body, name_of
from components.kubernetes.planes.base import ClusterRef
from components.remote.lines import read_request, render_lines
from components.remote.step import secrets_from

VERB: Final = "device restore-release"
SERVED_DEADLINE_S: Final = 60.0
"""Seconds until the API serves a recreated definition; it takes about one."""
_PAUSE_S: Final = 0.5
_FIRST_ERROR: Final = 400


@record
class RestoreRequest:
    """The request on stdin."""

    cluster: ClusterRef
    release: str
    namespace: str
    repair: str = ""
    """The drift that was found; a new text runs the step again."""

    def render(self) -> str:
        """The request, one value a line."""
        return render_lines(to_json(self))


def restore_step_name(release: str) -> str:
    """The step that restores the objects of a release: it exists from the first repair on."""
    return f"{release}-restore"


def run_restore_release(text: str, environ: Mapping[str, str]) -> str:
    """Restore the objects that differ, and print them as a line of JSON."""
    request = read_request(RestoreRequest, text, "request to restore a release")
    kubeconfig = fetch_kubeconfig(request.cluster, secrets_from(environ))
    ref = ReleaseRef(request.release, request.namespace)
    changed = [] if kubeconfig is None else restore_release(KubernetesCalls(kubeconfig), ref)
    return json.dumps({"changed": [plain_text(str(key)) for key in changed]})


def restore_release(
    calls: Calls, ref: ReleaseRef, clock: Callable[[], float] = time.monotonic
) -> list[Key]:
    """Make missing objects and patch different ones, definitions first; return the changed ones."""
    look = read_release(Reader(calls), ref)
    if look.release is None:
        return []  # the engine makes it again
    names = {name_of(body) for body in look.release.definitions}
    made = [
        _put(calls, Reader(calls), key, want, live)
        for key, want, live in _differing(look.live)
        if key.kind == "CustomResourceDefinition" and key.name in names
    ]
    ends = clock() + SERVED_DEADLINE_S
    while made and clock() < ends:  # a later check names the kinds that the API does not know then
        reader = Reader(calls)
        reader.learn(look.release.objects)
        if all(reader.served(body) is not None for body in look.release.objects):
            break
        time.sleep(_PAUSE_S)  # noqa: TID251 - it ends by the deadline above
    if made:
        look = read_release(Reader(calls), ref)
    reader = Reader(calls)
    made += [_put(calls, reader, key, want, live) for key, want, live in _differing(look.live)]
    left = list(_differing(read_release(Reader(calls), ref).live))
    if left:
        key, want, live = left[0]
        found = next(each for each in compare_object(want, live) if each.ours)
        raise DeviceError(fault_text(__file__, "changed-again", ref=ref, key=key, found=found))
    return made


def _differing(live: Live) -> Iterator[tuple[Key, Body, Body | None]]:
    for key, want, found in live.objects:
        if any(each.ours for each in compare_object(want, found)):
            yield key, want, found


def _put(calls: Calls, reader: Reader, key: Key, want: Body, live: Body | None) -> Key:
    """Make one object, or patch it with all wanted fields."""
    reader.learn([want])
    served = reader.served(want)
    if served is None:
        raise DeviceError(fault_text(__file__, "not-served", key=key))
    method, name = ("POST", "") if live is None else ("PATCH", key.name)
    answer = calls.call(method, served.path(key.namespace, name), want)
    if answer.status >= _FIRST_ERROR:
        raise DeviceError(f"{key}: the cluster refused it: {answer.status} {answer.words}")
    return key
