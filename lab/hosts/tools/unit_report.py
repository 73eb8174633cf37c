"""What `systemctl` reads: states, properties, files (systemd 249's systemctl(1))."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from components.core.record import record
from lab.hosts.processes import main_pid
from lab.hosts.supervisor import Supervisor, UnitNotFoundError
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.options import split_options
from lab.hosts.unit_state import UnitState
from lab.hosts.units import BUILTIN_SERVICES, Unit, enabled_links, full_name, load_unit

NOT_ACTIVE = 3
NOT_FOUND_STATUS = 4
FLAGS = ("--no-pager", "--no-block", "-l", "--full", "--no-ask-password", "--system",
         "--no-legend", "--plain", "--force", "-f", "--runtime", "--no-wall", "--all", "-a",
         "--now", "--value", "-q", "--quiet")  # fmt: skip
VALUED = ("-p", "--property", "-n", "--lines", "-s", "--signal", "-t", "--type", "-o")


@record
class Parsed:
    """A systemctl command line."""

    verb: str
    units: tuple[str, ...]
    properties: tuple[str, ...]
    flags: frozenset[str]
    signal_name: str = "SIGTERM"


def parse_systemctl(argv: tuple[str, ...]) -> Parsed | str:
    """Read the command line; the text is the option that is unknown."""
    spread = [
        part
        for word in argv
        for part in (("-p", word[2:]) if word.startswith("-p") and word != "-p" else (word,))
    ]
    options = split_options(spread, VALUED, FLAGS, mixed=True)
    if isinstance(options, str):
        return options
    verb, *units = options.words or ("list-units",)
    properties = [n for value in options.all("-p", "--property") for n in value.split(",")]
    flags = {name for name in ("--now", "--value") if options.has(name)}
    if options.has("-q", "--quiet"):
        flags.add("--quiet")
    name = options.last("-s", "--signal", default="SIGTERM")
    return Parsed(verb, tuple(units), tuple(properties), frozenset(flags), name)


class UnitReport:
    """The reading half of one host's `systemctl`."""

    def __init__(self, supervisor: Supervisor) -> None:
        """Report on the units of `supervisor`."""
        self._supervisor = supervisor
        self._verbs: dict[str, Callable[[Parsed], ToolResult]] = {
            "is-active": self._is_active,
            "is-failed": self._is_failed,
            "is-enabled": self._is_enabled,
            "is-system-running": self._is_system_running,
            "show": self._show,
            "cat": self._cat,
            "status": self._status,
            "list-units": self._list_units,
            "list-unit-files": self._list_unit_files,
        }

    def run(self, parsed: Parsed) -> ToolResult | None:
        """Answer a reading verb; None for any other."""
        verb = self._verbs.get(parsed.verb)
        return None if verb is None else verb(parsed)

    def active(self, name: str) -> str:
        """ActiveState of a unit; an unknown one is inactive."""
        try:
            return self._supervisor.state(name).active
        except UnitNotFoundError:
            return "inactive"

    def _is_active(self, parsed: Parsed) -> ToolResult:
        states = [self.active(name) for name in parsed.units]
        good = any(state == "active" for state in states)
        out = "" if "--quiet" in parsed.flags else "".join(f"{s}\n" for s in states)
        return ToolResult(0 if good else NOT_ACTIVE, out)

    def _is_failed(self, parsed: Parsed) -> ToolResult:
        states = [self.active(name) for name in parsed.units]
        out = "" if "--quiet" in parsed.flags else "".join(f"{s}\n" for s in states)
        return ToolResult(0 if "failed" in states else 1, out)

    def _unit_file_state(self, name: str) -> str:
        unit = load_unit(self._supervisor.root, full_name(name))
        if unit is None:
            return ""
        if unit.last("LoadState") == "masked":
            return "masked"
        if not unit.fragment:
            return "enabled" if unit.name in BUILTIN_SERVICES else "static"
        if enabled_links(self._supervisor.root, unit.name):
            return "enabled"
        installable = unit.names("WantedBy") or unit.names("RequiredBy") or unit.names("Alias")
        return "disabled" if installable else "static"

    def _is_enabled(self, parsed: Parsed) -> ToolResult:
        rc, out, err = 1, "", ""
        for name in parsed.units:
            state = self._unit_file_state(name)
            if not state:
                err += (
                    f"Failed to get unit file state for {full_name(name)}: "
                    "No such file or directory\n"
                )
                continue
            rc = 0 if state in ("enabled", "static") else rc
            out += f"{state}\n"
        return ToolResult(rc, "" if "--quiet" in parsed.flags else out, err)

    def _is_system_running(self, parsed: Parsed) -> ToolResult:
        del parsed
        failed = any(state.active == "failed" for state in self._supervisor.states.values())
        return ToolResult(1, "degraded\n") if failed else ToolResult(out="running\n")

    def _properties(self, name: str) -> dict[str, str]:
        full = full_name(name)
        try:
            state = self._supervisor.state(full)
        except UnitNotFoundError:
            return {"Id": full, "LoadState": "not-found", "ActiveState": "inactive",
                    "SubState": "dead", "UnitFileState": "", "FragmentPath": "", "MainPID": "0",
                    "LimitMEMLOCK": Unit(full).memlock}  # fmt: skip
        unit = state.unit
        return {
            "Id": full,
            "Names": full,
            "Description": unit.last("Description", full),
            "LoadState": unit.last("LoadState", "loaded"),
            "ActiveState": state.active,
            "SubState": state.sub,
            "Result": state.result,
            "UnitFileState": self._unit_file_state(full),
            "FragmentPath": unit.fragment,
            "DropInPaths": " ".join(unit.drop_ins),
            "NeedDaemonReload": "yes" if self._supervisor.needs_reload(full) else "no",
            "Type": unit.type,
            "RemainAfterExit": "yes" if unit.flag("RemainAfterExit") else "no",
            "MainPID": str(self._inner_pid(state)),
            "ExecMainStatus": str(abs(state.status)),
            "NRestarts": str(state.restarts),
            "LimitMEMLOCK": unit.memlock,
            "InvocationID": state.invocation,
            "Environment": " ".join(unit.settings.get("Environment", ())),
            "After": " ".join(unit.names("After")),
            "Restart": unit.last("Restart", "no"),
        }

    def _inner_pid(self, state: UnitState) -> int:
        """The main process's pid as the host sees it (the last of NSpid)."""
        pid = main_pid(state.process)
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return 0
        line = next(text_line for text_line in text.splitlines() if text_line.startswith("NSpid:"))
        return int(line.split()[-1])

    def _show(self, parsed: Parsed) -> ToolResult:
        blocks: list[str] = []
        for name in parsed.units or ("-",):
            found = self._properties(name)
            wanted = parsed.properties or tuple(found)
            lines = [
                found[key] if "--value" in parsed.flags else f"{key}={found[key]}"
                for key in wanted
                if key in found
            ]
            blocks.append("".join(f"{line}\n" for line in lines))
        return ToolResult(out="\n".join(blocks))

    def _cat(self, parsed: Parsed) -> ToolResult:
        out = ""
        for name in parsed.units:
            unit = load_unit(self._supervisor.root, full_name(name))
            if unit is None or not unit.fragment:
                return ToolResult(1, out, f"No files found for {full_name(name)}.\n")
            for path in (unit.fragment, *unit.drop_ins):
                text = (self._supervisor.root / path.lstrip("/")).read_text()
                out += f"{chr(10) if out else ''}# {path}\n{text}"
        return ToolResult(out=out)

    def _status(self, parsed: Parsed) -> ToolResult:
        rc, out = 0, ""
        for name in parsed.units:
            found = self._properties(name)
            if found["LoadState"] == "not-found":
                text = f"Unit {found['Id']} could not be found.\n"
                return ToolResult(NOT_FOUND_STATUS, out, text)
            rc = 0 if found["ActiveState"] == "active" else NOT_ACTIVE
            out += (
                f"● {found['Id']} - {found['Description']}\n"
                f"     Loaded: loaded ({found['FragmentPath']}; {found['UnitFileState']})\n"
                f"     Active: {found['ActiveState']} ({found['SubState']})\n"
                f"   Main PID: {found['MainPID']}\n\n"
            )
            out += "".join(f"{line}\n" for line in read_journal(self._supervisor, name)[-10:])
        return ToolResult(rc, out)

    def _list_units(self, parsed: Parsed) -> ToolResult:
        del parsed
        rows = [
            f"  {name} loaded {state.active} {state.sub} {state.unit.last('Description', name)}\n"
            for name, state in sorted(self._supervisor.states.items())
            if state.active != "inactive"
        ]
        return ToolResult(out="".join(rows))

    def _list_unit_files(self, parsed: Parsed) -> ToolResult:
        etc = self._supervisor.root / "etc/systemd/system"
        names = {p.name for p in etc.glob("*.*") if not p.is_dir()} | BUILTIN_SERVICES
        if parsed.units:
            names &= {full_name(name) for name in parsed.units}
        rows = [f"{name} {self._unit_file_state(name)}\n" for name in sorted(names)]
        return ToolResult(0 if rows else 1, "".join(rows) + f"\n{len(rows)} unit files listed.\n")


def read_journal(supervisor: Supervisor, name: str) -> list[str]:
    """Lines that a unit's processes and its supervisor wrote."""
    path = supervisor.journal / f"{full_name(name)}.log"
    return path.read_text(errors="replace").splitlines() if path.exists() else []


def journalctl(supervisor: Supervisor, call: ToolCall) -> ToolResult:
    """`journalctl -u UNIT [-n N] [-o cat]`, and the options that change no line here."""
    words, units, count, bare = list(call.argv), list[str](), 0, False
    while words:
        word, sign, value = words.pop(0).partition("=")
        if word in ("-u", "--unit", "-xeu", "-n", "--lines", "-o", "--output", "--since"):
            value = value if sign else (words.pop(0) if words else "")
            if word in ("-u", "--unit", "-xeu"):
                units.append(value)
            elif word in ("-n", "--lines"):
                count = int(value) if value.isdigit() else 0
            elif word in ("-o", "--output"):
                bare = value == "cat"
        elif word not in ("--no-pager", "-q", "-b", "-e", "-x", "-xe", "-l", "--no-hostname"):
            text = f"journalctl: unrecognized option '{word}'\n"
            return call.unmodelled(ToolResult(1, err=text))
    lines = [
        line if bare else f"{call.model.hostname} {name}: {line}"
        for name in units
        for line in read_journal(supervisor, name)
    ]
    lines = lines[-count:] if count else lines
    return ToolResult(out="".join(f"{line}\n" for line in lines) or "-- No entries --\n")
