"""From an empty folder to a cluster with a lock: each example that `railyard init` offers.

The lab plays the devices, upstream behind a mirror, and a real registry; the site says where they
are by the settings that any site has. What a host downloads or a pod pulls is that of the lock.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import pytest
import yaml

from components.artefacts.naming import LOCAL_FILES
from components.project.write import EXAMPLES
from lab.registry.images import Images
from lab.sources.server import REGISTRY_PORT, authority_of
from lab.sources.site import sources_of
from tests.docs.site_pages import consoles, page_of, shown_resources, shown_verdicts
from tests.site.begun import Begun, begin
from tests.site.playground import lab_folder
from tests.site.test_crusoe_k3s import public_address
from tests.site.test_esxi_roce import without_packages

K3S: Final = "github.com/k3s-io/k3s/releases/download/v1.36.3+k3s1/k3s"


@dataclass(frozen=True)
class Shape:
    """How the sources of one example are reached, and what of them the lock will have."""

    login: bool
    """The registry asks for a login."""
    trusted: bool
    """The hosts trust the servers, so that they download for themselves."""
    files: int
    charts: int
    images: int
    nodes: int
    """That get K3s; 0 where the site has no Kubernetes."""


SHAPES: Final = {
    "dgx-roce": Shape(login=True, trusted=True, files=2, charts=1, images=11, nodes=3),
    # Docker takes neither a login nor an authority from a site.
    "esxi-roce": Shape(login=False, trusted=True, files=0, charts=0, images=1, nodes=0),
    "shared-rdma": Shape(login=True, trusted=False, files=2, charts=1, images=8, nodes=3),
    "crusoe-k3s": Shape(login=True, trusted=False, files=2, charts=2, images=9, nodes=5),
}


WHOLE: Final = "dgx-roce"
"""The example of which CI plays more than the preview: `make stories` plays that of the others."""


def test_the_four_reference_systems_are_examples_of_init() -> None:
    assert {*SHAPES} <= {*EXAMPLES}
    assert len(SHAPES) == 4


@pytest.fixture
def begun(request: pytest.FixtureRequest, mark: str, tmp_path: Path) -> Iterator[Begun]:
    name = str(request.param)
    shape, stack = SHAPES[name], f"lock-{name}"
    sources = sources_of(stack, login=shape.login, trusted=shape.trusted)
    with begin(mark, tmp_path / "site", name, stack, sources) as found:
        yield found


def shape_of(begun: Begun) -> Shape:
    return SHAPES[begun.example]


@pytest.mark.site
@pytest.mark.parametrize("begun", [name for name in SHAPES if name != WHOLE], indirect=True)
def test_from_an_empty_folder_to_a_preview(begun: Begun) -> None:
    assert_pinned_and_previewed(begun)


def assert_pinned_and_previewed(begun: Begun) -> None:
    """Nothing goes without a lock; with one, the preview is that of the page, and only looks."""
    shape, stack_file = shape_of(begun), f"Pulumi.{begun.stack}.yaml"
    before = begun.snapshot()
    found = begun.railyard("check", stack_file)
    assert found.code == int(bool(shape.files))
    assert ("unpinned: k3s, k3s-install-script" in found.text) == bool(shape.files)
    if begun.example == WHOLE:  # the same for each: only the names of what lacks differ
        refused = begun.pulumi("preview").must(1)
        assert "unpinned: k3s, k3s-install-script" in refused
        early = begun.railyard("preflight", begun.stack).must(1)
        assert "unpinned: " in early
    begun.railyard("pin", stack_file).must()
    assert {kind: len(found) for kind, found in lock_of(begun).items()} == {
        kind: count
        for kind, count in (
            ("chart", shape.charts), ("file", shape.files), ("image", shape.images)
        )
        if count
    }  # fmt: skip
    checked = begun.railyard("check", stack_file).must()
    assert "unpinned" not in checked
    assert "no problems" in checked
    assert "no problem" in begun.railyard("preflight", begun.stack).must()
    resources = shown_resources(page_of(begun.example))
    assert f"+ {resources} to create" in begun.pulumi("preview").must()
    assert begun.snapshot() == before


def lock_of(begun: Begun) -> dict[str, dict[str, str]]:
    """What the lock has: kind to name to SHA-256."""
    found: dict[str, dict[str, str]] = {}
    for entry in yaml.safe_load((begun.folder / "site.lock.yaml").read_text())["artefacts"]:
        found.setdefault(entry["kind"], {})[entry["name"]] = entry["sha256"]
    return found


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(WHOLE, marks=pytest.mark.site),
        *(pytest.param(name, marks=pytest.mark.story) for name in SHAPES if name != WHOLE),
    ],
    indirect=True,
)
@pytest.mark.timeout(1200)  # an update and its undoing: minutes where the cores are shared
def test_from_an_empty_folder_to_a_cluster_and_back(begun: Begun) -> None:
    assert_pinned_and_previewed(begun)
    before = begun.snapshot()
    nodes = shape_of(begun).nodes
    if nodes:
        assert_altered_is_refused(begun)
    begun.up().must()
    assert "passed" in begun.railyard("report", begun.stack, "--no-open").must()
    assert_as_the_page_shows(begun)
    if nodes:
        installed = k3s_of_hosts(begun)
        locked = lock_of(begun)["file"]["k3s"]
        assert len(installed) == nodes
        assert {hashlib.sha256(each.read_bytes()).hexdigest() for each in installed} == {locked}
        assert_images_of_the_lock(begun)
    else:
        # The site builds its image from the one of the lock, and no host keeps that one's name.
        planned = begun.railyard("plan", "site.yaml", "--scripts").must()
        locked_images = lock_of(begun)["image"].values()
        assert [each for each in locked_images if f"@sha256:{each}" not in planned] == []
    begun.pulumi("preview", "--expect-no-changes").must()
    begun.pulumi("destroy", "--yes", "--skip-preview").must()
    assert left_of(begun.snapshot()) == left_of(before)


def left_of(snapshot: str) -> object:
    """All devices without packages, which an undo leaves, and without what a cloud was asked."""
    document = cast("dict[str, dict[str, object]]", without_packages(snapshot))
    document.get("cloud", {}).pop("operations", None)
    return document


def assert_altered_is_refused(begun: Begun) -> None:
    """A K3s that is not that of the lock: named before the update, and not used by it.

    What the preview brought here is whole, and an update would use it.
    """
    shutil.rmtree(begun.folder / LOCAL_FILES, ignore_errors=True)
    locked = lock_of(begun)["file"]["k3s"]
    tampered = hashlib.sha256(web_file(K3S) + b"\n").hexdigest()
    begun.spoil("altered", K3S)
    told = begun.railyard("preflight", begun.stack).must(1)
    assert "artefact-k3s" in told
    assert tampered in told
    assert locked in told
    refused = begun.up().refused()
    assert f"{tampered}, want {locked}; it was not used" in refused
    assert k3s_of_hosts(begun) == []
    begun.spoil("mended", K3S)


def k3s_of_hosts(begun: Begun) -> list[Path]:
    """Where hosts of the lab have it."""
    return list(lab_folder(begun.stack).glob("hosts/*/usr/local/bin/k3s"))


def assert_as_the_page_shows(begun: Begun) -> None:
    """The commands of the page of this example print what it shows of them."""
    page = page_of(begun.example)
    said = begun.pulumi("stack", "output", "verdict").must()
    verdicts = [" ".join(line.split()) for line in said.splitlines()]
    assert [line for line in shown_verdicts(page) if line not in verdicts] == []
    shown = [each.text.partition("\n")[2] for each in consoles(page, "$ railyard drift site\n")]
    assert shown == [begun.railyard("drift", begun.stack).must()]


def web_file(path: str) -> bytes:
    """What upstream serves in the lab: the file of this repository."""
    return Path(__file__).parents[2].joinpath("lab/cluster/mirror", Path(path).name).read_bytes()


def assert_images_of_the_lock(begun: Begun) -> None:
    """Every object of the cluster names images of the site's registry, by digests of the lock."""
    site = sources_of(begun.stack, login=True, trusted=False)
    registry = Images(
        f"{site.address}:{REGISTRY_PORT}",
        authority_of(lab_folder(begun.stack)).files.cert.read_text(),
        site.login,
    )
    locked = set(lock_of(begun)["image"].values())
    found = set(images_of(cluster_objects(begun)))
    assert len(found) > 3
    for image in sorted(found):
        name, _, digest = image.partition("@sha256:")
        assert name.startswith(f"{registry.host}/"), image
        assert digest in locked, image
        repository = name.removeprefix(f"{registry.host}/").rpartition(":")[0]
        status, _, _ = registry.call("HEAD", f"/v2/{repository}/manifests/sha256:{digest}")
        assert status == 200, image


def cluster_objects(begun: Begun) -> object:
    """All workloads, and what the operators start others from."""
    document = yaml.safe_load((begun.folder / "site.yaml").read_text())
    if "hosts" in document:
        server = next(each for each in document["hosts"] if each["role"] == "control_plane")
        name, address = server["name"], server["ssh"]["address"]
    else:  # servers of a cloud, behind their balancer
        name = f"{document['name']}-0"
        address = public_address(begun, f"{document['name']}-lb-0")
    config = lab_folder(begun.stack) / "hosts" / name / "etc/rancher/k3s/k3s.yaml"
    api = f"https://{address}:6443"
    kinds = "pods,daemonsets,deployments"
    if "gpu" in document["operators"]:
        kinds += ",clusterpolicies.nvidia.com"
    listing = ("get", kinds, "--all-namespaces", "--output", "json")
    return json.loads(begun.kubectl("--kubeconfig", str(config), "--server", api, *listing).must())


def images_of(value: object) -> Iterator[str]:
    """Whole names, and what the GPU operator joins from `repository`, `image` and `version`."""
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from images_of(item)
    elif isinstance(value, dict):
        found = cast("dict[str, object]", value)
        joined = [found.get(key) for key in ("repository", "image", "version")]
        if all(isinstance(part, str) for part in joined):
            if found.get("enabled") is not False:
                yield "{}/{}:{}".format(*joined)
        elif isinstance(image := found.get("image"), str) and "repository" not in found:
            yield image
        for item in found.values():
            yield from images_of(item)
