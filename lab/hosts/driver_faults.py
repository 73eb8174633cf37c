"""Faults of a host's drivers and of the tools that install them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from components.core.errors import UsageError
from lab.hosts.driver_state import MOK
from lab.hosts.image import GPU_TOOLS
from lab.hosts.model import HostModel
from lab.hosts.tools.package_state import half_installed, set_half_installed
from lab.hosts.tools.packages import put_package, remove

DRIVER_WORDS = {
    "package-lock": 1,
    "disk-full": 2,
    "half-installed": 1,
    "secure-boot": 1,
    "kernel-upgrade": 1,
    "gpu-driver": 2,
    "module-loaded": 1,
}
"""How many words follow each fault's name."""


def cause_driver_fault(model: HostModel, name: str, words: Sequence[str]) -> str:
    """Cause one fault and say in words what was done.

    Raises:
        UsageError: A word of it is wrong.
    """
    actions: dict[str, Callable[[], str]] = {
        "package-lock": lambda: _lock(model, words[0]),
        "disk-full": lambda: _fill(model, words[0], words[1]),
        "half-installed": lambda: _cut_off(model, words[0]),
        "secure-boot": lambda: _secure_boot(model, words[0]),
        "kernel-upgrade": lambda: _upgrade(model, words[0]),
        "gpu-driver": lambda: _gpu_driver(model, words[0], words[1]),
        "module-loaded": lambda: _load(model, words[0]),
    }
    return actions[name]()


def _lock(model: HostModel, holder: str) -> str:
    model.drivers.lock_holder = "" if holder == "off" else holder
    return "the package lock is free" if holder == "off" else f"{holder} holds the package lock"


def _fill(model: HostModel, folder: str, state: str) -> str:
    if state not in {"on", "off"} or not folder.startswith("/"):
        raise UsageError(f"disk-full takes a folder and on or off, not {folder!r} {state!r}")
    full = model.drivers.full_folders
    (full.add if state == "on" else full.discard)(folder)
    return f"{folder} {'is full' if state == 'on' else 'has space'}"


def _cut_off(model: HostModel, package: str) -> str:
    set_half_installed(model.root, [*half_installed(model.root), package])
    return f"{package} is half installed"


def _secure_boot(model: HostModel, state: str) -> str:
    if state not in {"on", "off", "enrolled"}:
        raise UsageError(f"secure-boot is on, off or enrolled, not {state!r}")
    model.drivers.secure_boot = state != "off"
    model.drivers.enrolled = state == "enrolled"
    key = model.root / MOK
    key.unlink(missing_ok=True)
    if state == "enrolled":
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_text("lab key\n")
    return f"Secure Boot is {'off' if state == 'off' else 'on'}"


def _upgrade(model: HostModel, release: str) -> str:
    if not release[:1].isdigit():
        raise UsageError(f"{release!r} is no kernel release, as 6.8.0-45-generic")
    (model.root / "boot").mkdir(exist_ok=True)
    (model.root / f"boot/vmlinuz-{release}").write_text("kernel\n")
    return f"the next boot takes Linux {release}"


def _gpu_driver(model: HostModel, version: str, kind: str) -> str:
    if kind not in {"open", "proprietary"}:
        raise UsageError(f"the GPU kernel modules are open or proprietary, not {kind!r}")
    model.drivers.gpu_version = "" if version == "none" else version
    if version == "none":
        remove(model.root, GPU_TOOLS)
    else:
        put_package(model.root, GPU_TOOLS, version)
    model.drivers.gpu_modules = "open" if kind == "open" else "proprietary"
    return f"the GPU driver is {version}, {kind}"


def _load(model: HostModel, module: str) -> str:
    model.modules.append(module)
    return f"module {module} is loaded"
