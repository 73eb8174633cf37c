"""hostname, hostnamectl, uname, date: the host's name and its kernel's, and its clock."""

from __future__ import annotations

import time

from lab.hosts.tools.call import ToolCall, ToolResult

KERNEL_VERSION = "#123-Ubuntu SMP Mon Jun 10 08:16:17 UTC 2024"
HOSTNAMECTL_SYSTEM = "Operating System: Ubuntu 22.04.4 LTS\n"


def hostname(call: ToolCall) -> ToolResult:
    """Print or set the running host name."""
    name = call.model.hostname
    shown = {
        "": name,
        "-s": name.partition(".")[0],
        "--short": name.partition(".")[0],
        "-f": name,
        "--fqdn": name,
        "-I": f"{call.model.config.address} ",
    }
    asked = " ".join(call.argv)
    if asked in shown:
        return ToolResult(out=f"{shown[asked]}\n")
    words = list(call.argv)
    if len(words) > 1 or words[0].startswith("-"):
        text = f"hostname: invalid option -- '{words[0].lstrip('-')}'\n"
        return call.unmodelled(ToolResult(255, err=text))
    if call.uid:
        return ToolResult(1, err="hostname: you must be root to change the host name\n")
    call.model.write_sysctl("kernel/hostname", words[0])
    return ToolResult()


def hostnamectl(call: ToolCall) -> ToolResult:
    """Print, or set the stored and the running name.

    With one of `--static` and `--transient`, `status` prints that name alone (hostnamectl(1)).
    """
    kinds = [word for word in call.argv if word in ("--static", "--transient", "--pretty")]
    words = [word for word in call.argv if word not in kinds]
    stored = call.host_path("/etc/hostname")
    match words:
        case [] | ["status"]:
            whole = f" Static hostname: {stored.read_text().strip()}\n{HOSTNAMECTL_SYSTEM}"
            alone = {"--static": stored.read_text(), "--transient": f"{call.model.hostname}\n"}
            return ToolResult(out=alone.get(" ".join(kinds), whole))
        case ["hostname"]:
            return ToolResult(out=stored.read_text())
        case ["set-hostname" | "hostname", name]:
            if call.uid:
                text = "Could not set static hostname: Interactive authentication required.\n"
                return ToolResult(1, err=text)
            stored.write_text(f"{name}\n")
            call.model.write_sysctl("kernel/hostname", name)
            return ToolResult()
        case _:
            text = f"Unknown command verb {words[0]}.\n"
            return call.unmodelled(ToolResult(1, err=text))


def uname(call: ToolCall) -> ToolResult:
    """The emulated kernel's names, since the driver version of an inbox driver is the kernel's."""
    values = {
        "s": "Linux",
        "n": call.model.hostname,
        "r": call.model.kernel,
        "v": KERNEL_VERSION,
        "m": "x86_64",
        "p": "x86_64",
        "i": "x86_64",
        "o": "GNU/Linux",
    }
    letters = "".join(word.lstrip("-") for word in call.argv) or "s"
    letters = "snrvmpio" if letters in ("a", "all") else letters
    if not set(letters) <= set(values):
        text = f"uname: unrecognized option '{call.argv[0]}'\n"
        return call.unmodelled(ToolResult(1, err=text))
    return ToolResult(out=" ".join(values[c] for c in "snrvmpio" if c in letters) + "\n")


def date(call: ToolCall) -> ToolResult:
    """`date [-u] [+FORMAT]` by the host's own clock."""
    now_s = int(time.time()) + call.model.platform.clock_off_s
    words = [word for word in call.argv if word not in {"-u", "--utc"}]
    form = words[0] if words else "+%a %b %e %H:%M:%S UTC %Y"
    if len(words) > 1 or not form.startswith("+"):
        return call.unmodelled(ToolResult(1, err=f"date: invalid date {form!r}\n"))
    shown = time.strftime(form[1:].replace("%s", str(now_s)), time.gmtime(now_s))
    return ToolResult(out=f"{shown}\n")
