"""modprobe, rmmod, lsmod, modinfo, depmod, sysctl, update-initramfs, update-grub.

Error texts are those of kmod and procps.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lab.hosts.driver_state import STACK, built, kernels, signer
from lab.hosts.driver_versions import stored_srcversion
from lab.hosts.kernel_modules import BOOT_MODULES, LOADABLE_MODULES, OLD_PEER, OLD_PEER_PACKAGE
from lab.hosts.model import HostModel
from lab.hosts.nic import DeviceRefusal
from lab.hosts.platform import grub_cfg
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.packages import installed

MODULE_BYTES = 65536


def _known(call: ToolCall, name: str) -> bool:
    """Whether there is such a module: NVIDIA's come with the GPU driver, or with their package."""
    plain = name.replace("-", "_")
    if plain.startswith("nvidia") and not call.model.drivers.gpu_version:
        return False
    if plain == OLD_PEER and OLD_PEER_PACKAGE not in installed(call.root):
        return False
    return plain in BOOT_MODULES or plain in LOADABLE_MODULES


def modprobe(call: ToolCall) -> ToolResult:
    """Load or unload modules."""
    options = [a for a in call.argv if a.startswith("-")]
    names = [a for a in call.argv if not a.startswith("-") and "=" not in a]
    if not set(options) <= {"-r", "-q", "-v", "-a", "-n", "--remove", "--quiet", "--dry-run"}:
        return call.unmodelled(ToolResult(1, err=f"modprobe: unrecognized option: {options}\n"))
    missing = [n for n in names if not _known(call, n)]
    if missing:
        text = (
            f"modprobe: FATAL: Module {missing[0]} not found in directory "
            f"/lib/modules/{call.model.kernel}\n"
        )
        return ToolResult(1, err="" if {"-q", "--quiet"} & set(options) else text)
    if {"-n", "--dry-run"} & set(options):
        return ToolResult()
    if call.uid:
        action = "remove" if "-r" in options else "insert"
        return ToolResult(
            1, err=f"modprobe: ERROR: could not {action} '{names[0]}': Operation not permitted\n"
        )
    if {"-r", "--remove"} & set(options):
        return _unload(call, names)
    return _load(call, names)


def _load(call: ToolCall, names: list[str]) -> ToolResult:
    refused = next((name for name in names if not call.model.load_module(name)), None)
    if refused is None:
        return ToolResult()
    text = f"modprobe: ERROR: could not insert '{refused}': Invalid argument\n"
    return ToolResult(1, err=text)


def _unload(call: ToolCall, names: list[str]) -> ToolResult:
    for name in names:
        plain = name.replace("-", "_")
        if call.model.module_users(plain):
            return ToolResult(1, err=f"modprobe: FATAL: Module {plain} is in use.\n")
        if plain in call.model.modules:
            call.model.unload_module(plain)
    return ToolResult()


def rmmod(call: ToolCall) -> ToolResult:
    """Unload modules that are loaded."""
    for name in call.argv:
        if name.replace("-", "_") not in call.model.modules:
            return ToolResult(1, err=f"rmmod: ERROR: Module {name} is not currently loaded\n")
    return _unload(call, list(call.argv))


def lsmod(call: ToolCall) -> ToolResult:
    """List the loaded modules, the last loaded first."""
    lines = [f"{'Module':<24}{'Size':>8}  Used by"]
    for name in reversed(call.model.modules):
        users = call.model.module_users(name)
        lines.append(f"{name:<23}{MODULE_BYTES:>9}  {len(users)} {','.join(users)}".rstrip())
    return ToolResult(out="\n".join(lines) + "\n")


def modinfo(call: ToolCall) -> ToolResult:
    """Show where a module lies, with `-F`, `-n` and `-k` as the product needs them."""
    argv = list(call.argv)
    wanted = ""
    running = call.model.kernel
    kernel = running
    while argv and argv[0].startswith("-"):
        option = argv.pop(0)
        if option in ("-F", "--field"):
            wanted = argv.pop(0)
        elif option == "-k":
            kernel = argv.pop(0)
        elif option in ("-n", "--filename"):
            wanted = "filename"
        else:
            return call.unmodelled(ToolResult(1, err=f"modinfo: invalid option -- {option!r}\n"))
    out: list[str] = []
    for name in argv:
        if not _known(call, name) or kernel not in {running, *kernels(call.root)}:
            return ToolResult(1, "".join(out), f"modinfo: ERROR: Module {name} not found.\n")
        fields = _fields(call, name.replace("-", "_"), kernel)
        if wanted:
            out.append(fields.get(wanted, "") + "\n")
        else:
            out += [f"{key + ':':<16}{value}\n" for key, value in fields.items()]
    return ToolResult(out="".join(out))


def _fields(call: ToolCall, name: str, kernel: str) -> dict[str, str]:
    """What a module's file says of itself; a package's lies below `updates`, and DKMS signs it."""
    drivers, of_package = call.model.drivers, name in STACK and built(call.root, kernel) is not None
    folder = "updates/dkms" if of_package else "kernel"
    fields = {
        "filename": f"/lib/modules/{kernel}/{folder}/{name}.ko",
        "srcversion": stored_srcversion(call.model, name, kernel),
        "vermagic": f"{kernel} SMP mod_unload modversions",
        "signer": signer(call.root, kernel)
        if of_package
        else "Build time autogenerated kernel key",
        "license": "Dual BSD/GPL",
    }
    if name == "nvidia":
        fields["version"] = drivers.gpu_version
        fields["license"] = "Dual MIT/GPL" if drivers.gpu_modules == "open" else "NVIDIA"
    return fields


def sysctl(call: ToolCall) -> ToolResult:
    """Read and write kernel settings: `-n`, `-w`, `-p FILE`, `--system`, `-a`, `-e`, `-q`."""
    flags = {a for a in call.argv if a.startswith("-")}
    words = [a for a in call.argv if not a.startswith("-")]
    if not flags <= {"-n", "-w", "-p", "--system", "-a", "-e", "-q", "--load"}:
        unknown = min(flags).lstrip("-")
        return call.unmodelled(ToolResult(1, err=f"sysctl: invalid option -- '{unknown}'\n"))
    if "--system" in flags:
        words = sysctl_files(call.root)
    if flags & {"-p", "--load", "--system"}:
        words = _settings_of(call, words or ["/etc/sysctl.conf"])
    if "-a" in flags:
        words = [key.replace("/", ".") for key in sorted(call.model.sysctls)]
    results = [_one_sysctl(call, word, flags) for word in words]
    return ToolResult(
        max((r.rc for r in results), default=0),
        "".join(r.out for r in results),
        "".join(r.err for r in results),
    )


def sysctl_files(root: Path) -> list[str]:
    """Files that `sysctl --system` and the boot read, in the order of their names."""
    found = sorted((root / "etc/sysctl.d").glob("*.conf"), key=lambda path: path.name)
    files = [f"/etc/sysctl.d/{path.name}" for path in found]
    return [*files, *(["/etc/sysctl.conf"] if (root / "etc/sysctl.conf").exists() else [])]


def _settings_of(call: ToolCall, files: list[str]) -> list[str]:
    words: list[str] = []
    for name in files:
        path = call.host_path(name)
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            text = line.strip()
            if text and text[0] not in "#;" and "=" in text:
                key, _, value = text.partition("=")
                words.append(f"{key.strip()}={value.strip()}")
    return words


def _one_sysctl(call: ToolCall, word: str, flags: set[str]) -> ToolResult:
    key, sign, value = word.partition("=")
    path = key.strip().replace(".", "/")
    shown = path.replace("/", ".")
    if path not in call.model.sysctls:
        text = f"sysctl: cannot stat /proc/sys/{path}: No such file or directory\n"
        return ToolResult() if "-e" in flags else ToolResult(255, err=text)
    if sign:
        if call.uid:
            return ToolResult(255, err=f'sysctl: permission denied on key "{shown}", ignoring\n')
        try:
            call.model.write_sysctl(path, value)
        except DeviceRefusal as refusal:
            reason = os.strerror(refusal.errno or errno.EINVAL)
            return ToolResult(255, err=f'sysctl: setting key "{shown}": {reason}\n')
    if sign and "-q" in flags:
        return ToolResult()
    current = call.model.hostname if path == "kernel/hostname" else call.model.sysctls[path]
    return ToolResult(out=f"{current}\n" if "-n" in flags else f"{shown} = {current}\n")


def boot_modules(model: HostModel, root: Path) -> None:
    """What systemd-modules-load and systemd-sysctl do at boot."""
    for path in sorted((root / "etc/modules-load.d").glob("*.conf")):
        for line in path.read_text().splitlines():
            name = line.strip()
            if name and name[0] not in "#;":
                model.load_module(name)
    call = ToolCall("sysctl", ("--system",), 0, 0, "/", model, root)
    sysctl(call)


def update_grub(call: ToolCall) -> ToolResult:
    """Make grub.cfg again from /etc/default/grub and its drop-ins."""
    if call.uid:
        return ToolResult(1, err="grub-mkconfig: You must run this as root\n")
    (call.root / "boot/grub/grub.cfg").write_text(grub_cfg(call.root))
    return ToolResult(
        err="Sourcing file `/etc/default/grub'\nGenerating grub configuration file ...\ndone\n"
    )


def quiet_success(call: ToolCall) -> ToolResult:
    """depmod, update-initramfs and udevadm: nothing of the model depends on them."""
    del call
    return ToolResult()
