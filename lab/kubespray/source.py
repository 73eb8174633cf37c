"""What a lab's site says of kubespray."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from components.kubernetes.kubespray.tree import make_environment, tree_digest

PROJECT: Final = Path(__file__).parents[2]
FOLDER: Final = Path("lab") / "kubespray"
RELEASE: Final = "v2.31.0"
"""What the tree says to be; its galaxy.yml has the same."""


def kubespray_source() -> dict[str, object]:
    """`source`, `requirements` and `python` of a site whose kubespray is the lab's own."""
    return {
        "source": {
            "release": RELEASE,
            "path": str(FOLDER / "tree"),
            "tree_sha256": tree_digest(PROJECT / FOLDER / "tree"),
        },
        "requirements": str(FOLDER / "requirements.lock"),
        "python": sys.executable,
    }


def ensure_ansible() -> Path:
    """The Ansible of the lab, installed where it is not there yet.

    Raises:
        DeviceError: pip could not.
    """
    return make_environment(str(PROJECT / FOLDER / "requirements.lock"), sys.executable)
