"""dkms, mokutil, ofed_info, openibd, and NVIDIA's installers: how RDMA modules come and go.

Sources: lab/sources.md#rdma-driver.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from lab.hosts.driver_state import (
    MOK,
    SIGNER,
    STACK,
    TREE,
    build,
    built_version,
    forget_modules,
    kernels,
    signer,
    source_version,
)
from lab.hosts.model import HostModel
from lab.hosts.tools.call import ToolCall, ToolResult, needs_root
from lab.hosts.tools.driver_packages import DRIVER_PACKAGES, TEMPLATES
from lab.hosts.tools.options import split_options
from lab.hosts.tools.packages import installed, put_package, remove

ROOT_NEEDED: Final = "You must be root to use this command.\n"
INSTALLER_FLAGS: Final = (
    "--without-fw-update", "--force", "-q", "--add-kernel-support", "--skip-repo", "--all",
)  # fmt: skip


def _has_headers(model: HostModel, kernel: str) -> bool:
    return f"linux-headers-{kernel}" in installed(model.root)


def _build(model: HostModel, version: str, kernel: str) -> ToolResult | None:
    """Build for one kernel, or say as dkms does that it cannot be done."""
    if not _has_headers(model, kernel):
        text = (
            f"Error! Your kernel headers for kernel {kernel} cannot be found.\n"
            f"Please install the linux-headers-{kernel} package or use the --kernelsourcedir "
            "option to tell DKMS where it's located.\n"
        )
        return ToolResult(1, err=text)
    state = model.drivers
    build(model.root, version, kernel, signed=state.secure_boot and state.enrolled)
    return None


def add_module(model: HostModel, version: str) -> ToolResult | None:
    """What the DKMS package does when it is installed: build for this kernel and the newest."""
    forget_modules(model.root)
    (model.root / TREE / version).mkdir(parents=True)
    wanted = {model.kernel, *kernels(model.root)[-1:]}
    for kernel in sorted(wanted):
        failed = _build(model, version, kernel)
        if failed is not None and kernel == model.kernel:
            return failed
    return None


def dkms(call: ToolCall) -> ToolResult:
    """`dkms status` and `dkms autoinstall -k KERNEL`."""
    version = source_version(call.root)
    match call.argv:
        case ("status",):
            lines = [f"mlnx-ofed-kernel/{version}, {path.name}, x86_64: installed\n"
                     for path in sorted((call.root / TREE / version).glob("*"))]  # fmt: skip
            added = f"mlnx-ofed-kernel/{version}: added\n" if version else ""
            return ToolResult(out="".join(lines) or added)
        case ("autoinstall", "-k", kernel):
            refused = needs_root(call, ROOT_NEEDED)
            return refused or _build(call.model, version, kernel) or ToolResult(
                out=f"mlnx-ofed-kernel.ko: installed for {kernel}\n"
            )  # fmt: skip
        case _:
            return call.unmodelled(ToolResult(1, err=f"Error! Unknown option: {call.argv}\n"))


def _key(name: str) -> str:
    """One key that signed itself, as mokutil 0.6 and OpenSSL print it, without its numbers."""
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).digest()
    fingerprint = ":".join(f"{byte:02x}" for byte in digest)
    return (
        f"[key 1]\nSHA1 Fingerprint: {fingerprint}\nCertificate:\n    Data:\n"
        f"        Issuer: CN={name}\n        Subject: CN={name}\n"
    )


def mokutil(call: ToolCall) -> ToolResult:
    """`mokutil --sb-state`, `--test-key FILE`, `--list-enrolled` and `--db`."""
    state = call.model.drivers
    match call.argv:
        case ("--sb-state",):
            return ToolResult(out=f"SecureBoot {'enabled' if state.secure_boot else 'disabled'}\n")
        case ("--test-key", path):
            if state.enrolled and path == f"/{MOK}":
                return ToolResult(1, f"{path} is already enrolled\n")
            return ToolResult(0, f"{path} is not enrolled\n")
        case ("--list-enrolled",):
            return ToolResult(out=_key(SIGNER) if state.enrolled else "MokListRT is empty\n")
        case ("--db",):
            return ToolResult(out=_key("Microsoft Corporation UEFI CA 2011"))
        case _:
            return call.unmodelled(ToolResult(255, err="mokutil: unrecognized option\n"))


def ofed_info(call: ToolCall) -> ToolResult:
    """`ofed_info -s` and `-n`."""
    release = installed(call.root).get("ofed-scripts", "")
    match call.argv:
        case ("-s",):
            return ToolResult(out=f"{release}:\n")
        case ("-n",):
            return ToolResult(out=re.sub(r"^[A-Za-z_-]+", "", release) + "\n")
        case _:
            return call.unmodelled(ToolResult(1, err="Usage: ofed_info [-l|-n|-s]\n"))


def openibd(call: ToolCall) -> ToolResult:
    """`/etc/init.d/openibd restart`: the modules in memory become those on disk."""
    if call.argv != ("restart",):
        return call.unmodelled(ToolResult(1, err="Usage: openibd {start|stop|restart|status}\n"))
    model = call.model
    holders = [name for name in model.module_users("ib_core") if name not in STACK]
    if holders:
        text = "Unloading ib_uverbs [FAILED]\n"
        text += f"rmmod: ERROR: Module ib_uverbs is in use by: {holders[0]}\n"
        return ToolResult(1, text)
    signed = model.drivers.enrolled and signer(call.root, model.kernel)
    if model.drivers.secure_boot and not signed:
        text = "modprobe: ERROR: could not insert 'mlx5_core': Key was rejected by service\n"
        return ToolResult(1, "Loading HCA driver and Access Layer:[FAILED]\n", text)
    model.drivers.loaded = built_version(call.root, model.kernel)
    model.lose_qos()
    for nic in model.nics:
        nic.set_vf_count("0")
    done = "[  OK  ]\n"
    return ToolResult(
        out=f"Unloading HCA driver: {done}Loading HCA driver and Access Layer: {done}"
    )


def ofed_uninstall(call: ToolCall) -> ToolResult:
    """`ofed_uninstall.sh --force`: the stack is gone, and the kernel's own modules are left."""
    forget_modules(call.root)
    for name in DRIVER_PACKAGES:
        remove(call.root, name)
    return ToolResult(out="Uninstall finished successfully\n")


def mlnxofedinstall(call: ToolCall) -> ToolResult:
    """The installer of a lab archive; the archive's own script says first which release it is."""
    options = split_options(call.argv, ("--lab-release",), INSTALLER_FLAGS, mixed=False)
    if isinstance(options, str) or options.words:
        text = f"-E- Invalid option: {options}\n"
        return call.unmodelled(ToolResult(1, text))
    if not options.has("--without-fw-update"):
        call.unmodelled(ToolResult())  # it would write firmware
    release = options.last("--lab-release")
    ofed_uninstall(call)
    put_package(call.root, "dkms", TEMPLATES["dkms"].version)
    failed = add_module(call.model, release.rpartition("LINUX-")[2])
    if failed is not None:
        text = "Failed to install mlnx-ofed-kernel-dkms DEB\nCollecting debug info...\n"
        return ToolResult(1, text, failed.err)
    for name in ("mlnx-ofed-kernel-dkms", "ofed-scripts", "mlnx-ofed-all"):
        put_package(call.root, name, release)
    return ToolResult(out="Installation passed successfully\n")


def doca_kernel_support(call: ToolCall) -> ToolResult:
    """`doca-kernel-support -k KERNEL`: on Ubuntu, where DKMS builds, the lab has no use for it."""
    return call.unmodelled(ToolResult(1, err="-E- not played in the lab\n"))
