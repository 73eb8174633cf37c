"""`Site`: a whole site as one component, for a Pulumi program of your own in any language.

The component host reads the types and docstrings of this module for the schema, so its annotations
are no texts (no `from __future__ import annotations`).
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NotRequired, TypedDict, TypeVar

import pulumi
from pulumi.runtime.settings import ROOT

from components.artefacts.lock import Lock, parse_lock
from components.checks.render import render_text
from components.checks.site import CheckedSite, check_loaded, load_checked_site
from components.core.errors import RailyardError, SpecError, UsageError
from components.core.plain_text import instances_in
from components.plan.make import PARTS, ClusterPlan, Part
from components.reading.load import parse_site
from components.remote.step import railyard_program
from stacks.guard import guarded, refusal
from stacks.inputs import given_secrets, wait_for
from stacks.program import compose

T = TypeVar("T")
_SITES: Final = dict[str, str]()
"""Stack to the name of its `Site`, in this process."""
OUTPUTS: Final = ("cluster", "verdict", "kubeconfig", "endpoints")


class SiteArgs(TypedDict):
    """The inputs of a `Site`."""

    site: pulumi.Input[str]
    """The path of the site file, relative to the program's folder, or its text."""
    lock: NotRequired[pulumi.Input[str]]
    """The text of the lock that `railyard pin` writes, for a site that is given as text. A site
    file has it beside it, such as `site.lock.yaml`."""
    secrets: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]]]
    """The secrets that the site file names, by name. Others come from the stack's configuration
    (`railyard:<name>`)."""
    parts: NotRequired[pulumi.Input[Sequence[str]]]
    """The parts to set up, of `switches`, `hosts` and `cluster`; by default all three. The others
    are neither read nor judged."""


class Site(pulumi.ComponentResource):
    """One RDMA GPU cluster: its switches, hosts, Kubernetes and pod networks, and their proof."""

    cluster: pulumi.Output[str]
    """The name of the site."""
    verdict: pulumi.Output[str]
    """The verdict of acceptance; the update fails if the network is not proven. It is empty if
    `parts` has no `cluster`."""
    kubeconfig: pulumi.Output[str]
    """The kubeconfig of the cluster's administrator; empty for a site without Kubernetes."""
    endpoints: pulumi.Output[Mapping[str, str]]
    """Addresses by name: `kubernetes`, and each device with its SSH or API port. Instances of a
    cloud are left out."""

    def __init__(
        self, name: str, args: SiteArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        try:
            _demand_one(name)
            _demand_program()
            checked, parts = _checked(args), _parts(args)
            given = given_secrets(args.get("secrets", {}))
            spec = checked.spec_or_raise()
        except RailyardError as error:
            raise refusal(str(error)) from error
        facts = {
            "site": checked.file,
            "locked": checked.lock.exists,
            "gate": spec.acceptance.gate,
            "plainSecrets": given.plain,
        }  # for policy packs
        super().__init__("railyard:index:Site", name, facts, opts)
        token = ROOT.set(self)  # the parent of the stages, which have none of their own
        try:
            ready = guarded(checked, parts, given)
            report = compose(ready)
        finally:
            ROOT.reset(token)
        self.cluster = pulumi.Output.from_input(ready.spec.name)
        self.verdict = report.verdict
        self.kubeconfig = pulumi.Output.secret(report.kubeconfig or "")
        self.endpoints = pulumi.Output.from_input(endpoints_of(ready.plan))
        own = {name: getattr(self, name) for name in OUTPUTS}
        self.register_outputs({**own, **ready.outputs_after(self.verdict)})


def endpoints_of(plan: ClusterPlan) -> Mapping[str, str]:
    """The addresses that are known before the update, by name."""
    devices = [each.endpoint for each in (*plan.switches, *plan.hypervisors, *plan.hosts)]
    found = {each.device: each.place for each in devices}
    if plan.kubernetes is not None:
        found["kubernetes"] = plan.kubernetes.server_url
    return {name: text for name, text in found.items() if text and not instances_in(text)}


def _checked(args: SiteArgs) -> CheckedSite:
    """Read and check the file, or the text with its lock."""
    site = _required("site", args["site"], "a path or the text of a site")
    if "\n" not in site:
        if args.get("lock") is not None:
            raise UsageError(
                f"`lock` of the Site belongs to a text, and {site} is a file.\n"
                "  fix    remove `lock`: the file has its lock beside it"
            )
        return load_checked_site(Path(site))
    lock = Lock()
    if "lock" in args:
        lock, wrong = parse_lock(
            _required("lock", args["lock"], "the text of a lock"), Path("lock")
        )
        if wrong:
            raise SpecError(render_text(wrong))
    return check_loaded(parse_site(site, "site"), "site", lock)


def _required(key: str, value: pulumi.Input[T], wanted: str, kind: type = str) -> T:
    found = wait_for(value)
    if found is None:
        raise UsageError(
            f"`{key}` of the Site is not known in this preview: it comes from a resource that the"
            " update makes.\n  fix    create that resource first: pulumi up --target <its URN>"
        )
    if not isinstance(found, kind):
        name = type(found).__name__
        article = "an" if name == "int" else "a"
        raise UsageError(
            f"`{key}` of the Site is {article} {name}, and it takes {wanted}.\n"
            "  fix    correct the program"
        )
    return found


def _parts(args: SiteArgs) -> Sequence[Part]:
    known = f"a list of {', '.join(PARTS)}"
    written = _required("parts", args["parts"], known, list) if "parts" in args else PARTS
    if wrong := sorted({*written} - {*PARTS}) or (() if written else ["nothing"]):
        raise UsageError(
            f"`parts` of the Site has {', '.join(wrong)}, and it takes {', '.join(PARTS)}.\n"
            "  fix    correct the name, or remove `parts` for the whole site"
        )
    return [part for part in PARTS if part in written]


def _demand_one(name: str) -> None:
    """Demand that a stack has one `Site`: its state belongs to one site file."""
    other = _SITES.setdefault(pulumi.get_stack(), name)
    if other != name:
        raise UsageError(
            f"the stack has the Site `{other}` already, and a stack holds one.\n"
            f"  fix    put `{name}` into a stack of its own"
        )


def _demand_program() -> None:
    """Demand that the engine finds `railyard`, which steps on this machine call.

    Raises:
        UsageError: It is neither in an environment of the program's folder nor on PATH.
    """
    own = Path(sys.prefix) / "bin"
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in folders if Path(each) != own)
    if railyard_program() == "railyard" and shutil.which("railyard", path=path) is None:
        raise UsageError(
            "the engine does not find `railyard`, which steps on this machine call.\n"
            f"  fix    put it on PATH: export PATH={own}:$PATH"
        )
