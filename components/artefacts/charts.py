"""Helm charts: a repository's index, a registry's chart, and the images that a chart names."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urljoin

import yaml

from components.artefacts.resolve import merged
from components.artefacts.web import Access, FetchError, WrongContentError, fetch
from components.core.problem import Json
from components.model.operators import ChartValues

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml: NVIDIA's index is megabytes of YAML."""
_V_BEFORE: Final = frozenset({"nvidia-device-plugin"})
"""Charts whose default tag is `v` and the chart's `appVersion` (its templates/_helpers.tpl)."""
_COMPLETED: Final = frozenset({"driver#image", "gds#image", "gdrcopy#image", "vgpuManager#image"})
"""Images without a full tag: the GPU operator adds each host's release, such as `-ubuntu22.04`.

The tags of nvidia/driver in NGC's catalogue show this; without that part they name no image.
"""
_DEEPEST: Final = 6
"""Levels of values to search for images; NVIDIA's charts use four."""


@dataclass(frozen=True, slots=True)
class ListedChart:
    """One chart in a repository's index."""

    address: str
    digest: str
    """SHA-256 in hexadecimal; empty if the index does not give it."""


def find_in_index(repo: str, chart: str, version: str, access: Access, at: str) -> ListedChart:
    """Look up a chart and its release, with or without a `v`, in its repository.

    Addresses in the index are below `repo`; `at` is where to fetch the index: `repo`, or its copy
    in a mirror.
    """
    index = f"{at.rstrip('/')}/index.yaml"
    text = fetch(index, access)
    try:
        found = cast("Mapping[str, Json]", yaml.load(text, _LOADER))  # noqa: S506 - a safe loader
        entries = cast("Mapping[str, list[Mapping[str, Json]]]", found["entries"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise FetchError(index, "it is not an index of charts", "correct the repository") from error
    releases = entries.get(chart)
    if not releases:
        names = ", ".join(sorted(entries)[:8])
        raise FetchError(index, f"it lacks the chart {chart}; it has {names}", "correct the name")
    wanted = version.removeprefix("v")
    for each in releases:
        urls = cast("list[str]", each.get("urls") or [])
        if str(each.get("version")).removeprefix("v") == wanted and urls:
            digest = str(each.get("digest") or "").removeprefix("sha256:")
            return ListedChart(urljoin(f"{repo.rstrip('/')}/", urls[0]), digest)
    have = ", ".join(str(each.get("version")) for each in releases[:5])
    raise FetchError(
        index,
        f"chart {chart} lacks the release {version}; the newest are {have}",
        "choose one of them",
    )


def images_of_chart(archive: bytes, chart: str, ours: ChartValues) -> dict[str, str]:
    """The images that a chart's values name, those of its sub-charts included.

    A chart names an image by `repository`, `image` and `version`, as NVIDIA's operators do, or by
    `repository` and `tag`. If the release is empty, the chart's `appVersion` is used. Images of
    parts with `enabled: false` are left out, and so are those whose tag only a host completes.

    Returns the path in the values, with `#image` or `#tag` for the form, to the image. `ours` are
    the values that Railyard sets for the chart.
    """
    try:
        files = _texts(archive)
        top = min((name for name in files if name.endswith("/Chart.yaml")), key=len)
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise WrongContentError(
            chart, "it is not an archive of a chart", "see what serves it"
        ) from error
    folder = top.removesuffix("Chart.yaml")
    found = _in_chart(files, folder, ours)
    return {path: image for path, image in found if path not in _COMPLETED}


def _in_chart(
    files: Mapping[str, bytes], folder: str, over: ChartValues
) -> Iterator[tuple[str, str]]:
    described = _mapping(files.get(f"{folder}Chart.yaml", b""))
    values = merged(_mapping(files.get(f"{folder}values.yaml", b"")), over)
    release = str(described.get("appVersion") or described.get("version") or "")
    release = f"v{release}" if described.get("name") in _V_BEFORE else release
    depends = described.get("dependencies")
    names: dict[str, str] = {}
    for each in depends if isinstance(depends, list) else []:
        if isinstance(each, dict):
            names[str(each.get("alias") or each.get("name"))] = str(each.get("condition") or "")
    own = {key: value for key, value in values.items() if key not in names}
    yield from _in_values(own, (), release)
    for name, condition in names.items():
        if condition and not all(_switched_on(values, one) for one in condition.split(",")):
            continue
        below = values.get(name)
        inner = below if isinstance(below, dict) else {}
        for path, image in _in_chart(files, f"{folder}charts/{name}/", inner):
            yield f"{name}.{path}", image


def _switched_on(values: ChartValues, condition: str) -> bool:
    found: Json = values
    for key in condition.strip().split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found is not False


def _in_values(
    values: Mapping[str, Json], path: tuple[str, ...], release: str
) -> Iterator[tuple[str, str]]:
    if values.get("enabled") is False or len(path) > _DEEPEST:
        return
    repository = values.get("repository")
    if isinstance(repository, str) and repository:
        image, form = values.get("image"), ".".join(path)
        if isinstance(image, str) and image:
            tag = str(values.get("version") or release)
            yield f"{form}#image", _join(f"{repository}/{image}", tag)
        elif "tag" in values:
            yield f"{form}#tag", _join(repository, str(values["tag"] or release))
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _in_values(value, (*path, key), release)


def _join(name: str, version: str) -> str:
    return f"{name}@{version}" if version.startswith("sha256:") else f"{name}:{version}"


def _texts(archive: bytes) -> dict[str, bytes]:
    """The Chart.yaml and values.yaml of a chart and its sub-charts."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
        for member in packed:
            if member.isfile() and member.name.rpartition("/")[2] in {"Chart.yaml", "values.yaml"}:
                file = packed.extractfile(member)
                found[member.name] = file.read() if file else b""
    return found


def _mapping(text: bytes) -> ChartValues:
    found: object = yaml.load(text, _LOADER) if text else {}  # noqa: S506 - a safe loader
    return cast("ChartValues", found) if isinstance(found, dict) else {}
