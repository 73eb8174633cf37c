"""Write the Stack objects with which the Pulumi Kubernetes Operator runs the stacks of a site.

Fields, limits and behaviour are those of the operator's release 2.9.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from components.catalogue.operator_versions import parse_numbers
from components.core.errors import UsageError
from components.core.limits import FILE_BYTES, run_within
from components.core.record import record
from components.core.templates import fault_text

OLDEST: Final = "2.8.0"
"""The first release that gives up after some failed updates. Older ones repeat them for ever, and
those before 2.6.0 can end an update that runs (its change log, #1007 and #1155)."""
TESTED: Final = "2.9.0"
DEFINITION: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/stacks.pulumi.com"
ACCOUNT: Final = "railyard"
"""Service account of the pods."""
WITHIN: Final = "24h"
"""An earlier stack runs again if its last success is older than this: longer than a roll-out."""
_CHART: Final = "oci://ghcr.io/pulumi/helm-charts/pulumi-kubernetes-operator"
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?")
"""A Service is named after the Stack, and the operator's definition allows 42 characters."""
_SSH: Final = re.compile(r"ssh://.+|[\w.-]+@[\w.-]+:.+")
_SSH_KEY, _TOKEN = "GIT_SSH_PRIVATE_KEY", "GIT_TOKEN"
_MEMORY: Final = "2Gi"
"""A preview of 1,000 hosts needs 1.6 GiB (bench/README.md). With the operator's default of 64Mi a
full node would evict this pod, and the update in it, before others."""
_KEEP_POD: Final = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
_GIT_DEADLINE_S: Final = 30

Object = dict[str, Any]


@record
class Source:
    """A project at one commit of a git repository that the operator can fetch."""

    repo: str
    commit: str
    folder: str
    """Folder of the project in the repository; empty at its top."""
    key: str = ""
    """Key of the Secret for the login; empty for a public repository."""


@record
class OperatorStack:
    """One stack of the site."""

    name: str
    config: Mapping[str, object]
    secrets: Sequence[str]
    """Names of the secrets in the stack's configuration."""
    variables: Sequence[str]
    """Environment variables with a secret."""
    after: Sequence[str] = ()
    """Stacks that must succeed first."""


@record
class Export:
    """Everything that the Stack objects of a site have in common."""

    source: Source
    backend: str
    """Address of the states; empty if it contains a password, which only the Secret may have."""
    provider: str
    """`secretsprovider` of the stack's file, or empty."""
    image: str
    namespace: str
    secret: str
    """Name of the Secret with all values."""
    preview: bool

    def render(self, stacks: Sequence[OperatorStack], head: Sequence[str]) -> str:
        """Write YAML: comments, an account, the stacks in order; UsageError for a stack's name."""
        names = {stack.name: object_name(stack.name) for stack in stacks}
        if wrong := [stack for stack, name in names.items() if not _NAME.fullmatch(name)]:
            raise UsageError(fault_text(__file__, "wrong-name", names=", ".join(wrong)))
        # The agent in a pod asks the API whether the caller may use it; it needs no more.
        account = {"name": ACCOUNT, "namespace": self.namespace}
        role, group = "system:auth-delegator", "rbac.authorization.k8s.io"
        objects: list[Object] = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{self.namespace}:{ACCOUNT}:{role}"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", **account}],
            },
            *map(self._stack, stacks),
        ]
        own = json.loads(json.dumps(objects))  # shared parts would become aliases of YAML
        text = yaml.safe_dump_all(own, sort_keys=False, explicit_start=True, width=200)
        return "".join(f"# {line}\n" for line in head) + text

    def keys(self, stacks: Iterable[OperatorStack]) -> list[str]:
        """The keys that the Secret must have."""
        named = {name for stack in stacks for name in (*stack.secrets, *stack.variables)}
        return sorted(named | {self.source.key} - {""})

    def _stack(self, stack: OperatorStack) -> Object:
        requirement, login = {"succeededWithinDuration": WITHIN}, self._value(self.source.key)
        logins = {_TOKEN: {"accessToken": login}, _SSH_KEY: {"sshAuth": {"sshPrivateKey": login}}}
        pod: Object = {
            "image": self.image,
            "resources": {"requests": {"cpu": "500m", "memory": _MEMORY}},
            "podTemplate": {"metadata": {"annotations": _KEEP_POD}},
        }
        spec: Object = {
            "stack": stack.name, "backend": self.backend, "secretsProvider": self.provider,
            "projectRepo": self.source.repo, "commit": self.source.commit,
            "repoDir": self.source.folder, "gitAuth": logins.get(self.source.key),
            "config": dict(stack.config),
            "secretsRef": {f"railyard:{key}": self._value(key) for key in stack.secrets},
            "envRefs": {name: self._value(name) for name in stack.variables},
            "prerequisites": [
                {"name": object_name(each), "requirement": requirement} for each in stack.after
            ],
            "preview": self.preview, "serviceAccountName": ACCOUNT,
            "workspaceTemplate": {"spec": pod},
        }  # fmt: skip
        return {
            "apiVersion": "pulumi.com/v1",
            "kind": "Stack",
            "metadata": {"name": object_name(stack.name), "namespace": self.namespace},
            "spec": {key: value for key, value in spec.items() if value},
        }

    def _value(self, key: str) -> Object:
        return {"type": "Secret", "secret": {"name": self.secret, "key": key}}


def object_name(stack: str) -> str:
    """The name of a Stack object: that of the stack without its organization, as DNS allows."""
    return re.sub(r"[^a-z0-9]+", "-", stack.rpartition("/")[2].lower())


def engine_variables(backend: str, stack_file: Mapping[str, object]) -> list[str]:
    """The environment variables with which the engine opens the states and their secrets."""
    cloud = urlsplit(backend).scheme in {"http", "https"}
    provider = "" if cloud else stack_file.get("secretsprovider", "passphrase")
    passphrase = "encryptionsalt" in stack_file or provider == "passphrase"
    needed = {
        "PULUMI_BACKEND_URL": has_password(backend),
        "PULUMI_ACCESS_TOKEN": cloud,
        "PULUMI_CONFIG_PASSPHRASE": passphrase,
    }
    return [name for name, used in needed.items() if used]


def has_password(address: str) -> bool:
    """Whether an address contains a login, so that it is a secret itself."""
    parts = urlsplit(address)
    return parts.password is not None or (parts.scheme == "https" and parts.username is not None)


def refuse_old(version: str) -> None:
    """Refuse an old release of the operator, and a text without its three numbers."""
    where = "--operator-version"
    if len(numbers := parse_numbers(version)) < 3:  # noqa: PLR2004 - three parts of a release
        words = {"version": version, "option": where, "tested": TESTED}
        raise UsageError(fault_text(__file__, "no-release", **words))
    if numbers < parse_numbers(OLDEST):
        raise _too_old(f"the operator {version} is too old", where)


def refuse_old_definition(definition: Mapping[str, Any], where: str) -> None:
    """Refuse an operator whose definition of a Stack lacks fields of newer releases."""
    versions = [each for each in definition["spec"]["versions"] if each["name"] == "v1"]
    schema: Any = versions[0]["schema"]["openAPIV3Schema"]["properties"] if versions else {}
    for part, field in (("spec", "workspaceTemplate"), ("status", "projectInfo")):
        if field not in schema.get(part, {}).get("properties", {}):
            raise _too_old(f"the operator is too old: its Stacks have no {part}.{field}", where)


def _too_old(what: str, where: str) -> UsageError:
    words = {"said": what, "oldest": OLDEST, "place": where, "chart": _CHART, "tested": TESTED}
    return UsageError(fault_text(__file__, "too-old", **words))


def read_source(project: Path, needed: Sequence[str], repo: str, *, token: bool) -> Source:
    """Read the commit of a project's folder, and the address of its repository.

    `repo` is the address as the cluster reaches it; by default that of the remote `origin`.
    Raises: UsageError: all reasons why the operator could not fetch and run exactly these files.
    """
    commit = _git(project, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
    if not commit:
        raise UsageError(fault_text(__file__, "no-commit", folder=project.absolute()))
    address = repo or _git(project, "remote", "get-url", "origin").strip()
    faults: list[str] = []
    there = _git(project, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
    for name in (name for name in needed if name not in there):
        how = "railyard init . --package, " if name == "requirements.txt" else ""
        fix = f"{how}git add {name}, git commit and git push"
        faults.append(f"the commit lacks {name}, which the program needs.\n  fix    {fix}")
    changed = _git(project, "diff", "--relative", "--name-only", "HEAD", "--", ".").split("\n")
    if names := ", ".join(filter(None, changed)):
        what = f"the operator runs the commit, without your changes of {names}"
        faults.append(f"{what}.\n  fix    git commit")
    if fault := _address_fault(address):
        fix = "name the address with which the cluster fetches it: --repo https://…"
        where = "--repo" if repo else "the remote `origin` of git"
        faults.append(f"{fault}.\n  where  {where}\n  fix    {fix}")
    elif not repo and not _git(project, "branch", "--remotes", "--contains", commit):
        faults.append(f"no remote branch has the commit {commit[:12]}.\n  fix    git push")
    if faults:
        raise UsageError("\n".join(faults))
    folder = _git(project, "rev-parse", "--show-prefix").strip().rstrip("/")
    key = _SSH_KEY if _SSH.fullmatch(address) else _TOKEN if token else ""
    return Source(address, commit, folder, key)


def _address_fault(address: str) -> str:
    if not address:
        return "the git repository has no remote, so the operator cannot fetch the program"
    if has_password(address):
        return "the address of the git repository contains a login; --git-token refers to a Secret"
    ok = address.startswith("https://") or _SSH.fullmatch(address)
    return "" if ok else f"the operator fetches by https and SSH alone, not {address}"


def _git(project: Path, *words: str) -> str:
    """Run git in the project; returns its output, or nothing if it fails."""
    command = ["git", "-C", str(project), *words]
    try:
        status, text, _ = run_within(command, _GIT_DEADLINE_S, FILE_BYTES)
    except OSError as error:
        raise UsageError(f"git cannot be run: {error}") from error
    return "" if status else text.decode(errors="replace")
