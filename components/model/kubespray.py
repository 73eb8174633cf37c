"""Settings of kubespray: its release and its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, model_validator

from components.model.texts import LocalPath, refuse
from components.model.units import Frozen, PinnedSource, Sha256

KUBERNETES_RELEASE: Final = r"^v1\.[0-9]+\.[0-9]+$"
KUBESPRAY_TAG: Final = r"^v[0-9]+\.[0-9]+\.[0-9]+$"
COMMIT: Final = r"^[0-9a-f]{40}$"
GIT_ADDRESS: Final = r"^https://[A-Za-z0-9._~:/&+,=%-]+$"
VARIABLE: Final = r"^[a-z][a-z0-9_]*$"

KubesprayRelease = Annotated[str, StringConstraints(pattern=KUBERNETES_RELEASE)]
"""An exact release of upstream Kubernetes."""
KubesprayRequirements = LocalPath
"""A path relative to the project."""
ClusterMtu = Annotated[int, Field(ge=1280, le=9216)]
"""Bytes. Less than 1280 carries no IPv6; 9216 is the most that switches carry."""
NodePrefix = Annotated[int, Field(ge=20, le=28)]
"""From /28 with 14 pods of a node to /20 with 4,094."""
Variable = Annotated[str, StringConstraints(pattern=VARIABLE)]


def _no_templates(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for place, text in _texts(values, ""):
        if mark := next((each for each in ("{{", "{%", "{#") if each in text), None):
            raise refuse(
                f"{place} has {mark!r}: Ansible would run it as a Jinja template on this machine, "
                "next to the keys of all nodes",
                "write the value itself; templates belong into a role of yours.",
            )
    return values


def _texts(value: JsonValue, place: str) -> Iterator[tuple[str, str]]:
    """Each text in a value, and each key, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{place}[{number}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"the key {place}.{key}".replace(" .", " "), key
            yield from _texts(item, f"{place}.{key}".strip("."))


ExtraVars = Annotated[dict[Variable, JsonValue], AfterValidator(_no_templates)]
"""Plain values, lists and mappings, as in JSON: Ansible must not have to guess."""


class KubespraySource(Frozen):
    """Source of kubespray: a folder, an archive or a git repository, and its release."""

    release: Annotated[str, StringConstraints(pattern=KUBESPRAY_TAG)]
    """The release, for example `v2.31.0`: the tag in `git`, and the version in the tree itself."""
    path: LocalPath | None = None
    """Folder with the tree, relative to the project; with `tree_sha256`."""
    tree_sha256: Sha256 | None = None
    """Checksum over all files of `path`; the error for a wrong one prints the right one."""
    archive: PinnedSource | None = None
    """Absolute path on this machine, or an https URL, of a `.tar.gz` with the tree; with
    `archive_sha256`."""
    archive_sha256: Sha256 | None = None
    """Checksum of `archive`."""
    git: Annotated[str, StringConstraints(pattern=GIT_ADDRESS)] | None = None
    """An https address of the repository; with `commit`."""
    commit: Annotated[str, StringConstraints(pattern=COMMIT)] | None = None
    """The commit of the tag `release`: a moved tag is refused."""

    @model_validator(mode="after")
    def _one_pinned_place(self) -> Self:
        pairs = (
            ("path", self.path, "tree_sha256", self.tree_sha256),
            ("archive", self.archive, "archive_sha256", self.archive_sha256),
            ("git", self.git, "commit", self.commit),
        )
        named = [pair for pair in pairs if pair[1] is not None or pair[3] is not None]
        if len(named) != 1:
            raise refuse(
                f"kubespray comes from {len(named)} places" if named else "no kubespray is named",
                "give one of path, archive and git, with its checksum or commit.",
            )
        place, value, pin, pinned = named[0]
        if value is None or pinned is None:
            raise refuse(
                f"{place if pinned is None else pin} of kubespray is there without the other",
                f"give {place} and {pin} together.",
            )
        return self

    @property
    def pin(self) -> str:
        """The checksum or commit that pins the tree."""
        return self.tree_sha256 or self.archive_sha256 or self.commit or ""
