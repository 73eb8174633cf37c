"""systemd unit files: reading, drop-ins, and what the lab's supervisor needs of them (pure).

Grammar: systemd.syntax(7), systemd.unit(5), systemd.service(5).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.core.record import field, record

UNIT_FOLDERS = ("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system")
"""Search path below the host's root, the first wins."""

LIST_KEYS = frozenset({
    "After", "Before", "Wants", "Requires", "BindsTo", "PartOf", "Conflicts", "WantedBy",
    "RequiredBy", "ConditionPathExists", "AssertPathExists", "ExecStartPre", "ExecStart",
    "ExecStartPost", "ExecStop", "ExecStopPost", "ExecReload", "Environment", "EnvironmentFile",
    "Also", "Alias",
})  # fmt: skip
"""Settings that add up over lines; an empty assignment clears them."""

BUILTIN_TARGETS = frozenset({
    "sysinit.target", "basic.target", "network-pre.target", "network.target",
    "network-online.target", "multi-user.target", "graphical.target", "default.target",
    "local-fs.target", "remote-fs.target", "time-sync.target", "timers.target", "sockets.target",
    "nss-lookup.target", "shutdown.target",
})  # fmt: skip

BUILTIN_SERVICES = frozenset({
    "ssh.service", "sshd.service", "systemd-udev-settle.service", "systemd-udevd.service",
    "systemd-modules-load.service", "systemd-sysctl.service", "systemd-networkd.service",
    "systemd-networkd-wait-online.service", "dbus.service", "cron.service",
})  # fmt: skip
"""Services of the installed system: always active, nothing to start."""

DEFAULT_MEMLOCK_BYTES = 8388608
"""systemd's DefaultLimitMEMLOCK since v249: 8 MiB."""
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


@record
class Unit:
    """One unit as loaded: its settings with all drop-ins applied."""

    name: str
    fragment: str = ""
    """Path of the unit file inside of the host; empty for a built-in or transient unit."""
    drop_ins: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    sections: frozenset[str] = frozenset()

    def last(self, key: str, default: str = "") -> str:
        """The value of a setting that has one value."""
        values = self.settings.get(key, ())
        return values[-1] if values else default

    def flag(self, key: str) -> bool:
        """A yes/no setting."""
        return self.last(key).lower() in ("yes", "true", "on", "1")

    def names(self, key: str) -> list[str]:
        """The unit names in a list setting."""
        return [name for value in self.settings.get(key, ()) for name in value.split()]

    @property
    def type(self) -> str:
        """The service type, with systemd's default."""
        return self.last("Type", "simple" if self.settings.get("ExecStart") else "oneshot")

    def seconds(self, key: str, default: float) -> float:
        """A time span in seconds; `0` and `infinity` mean none."""
        value = self.last(key)
        return parse_span(value) if value else default

    @property
    def before_start(self) -> tuple[str, ...]:
        """What is run before the service itself; its folders of /run are made first."""
        folders = (f"/bin/mkdir -p /run/{name}" for name in self.names("RuntimeDirectory"))
        return (*folders, *self.settings.get("ExecStartPre", ()))

    @property
    def memlock(self) -> str:
        """LimitMEMLOCK as `systemctl show` prints it: bytes or `infinity`."""
        return normal_limit(self.last("LimitMEMLOCK", str(DEFAULT_MEMLOCK_BYTES)))


def normal_limit(value: str) -> str:
    """A resource limit in bytes, or `infinity`."""
    soft = value.partition(":")[0]
    match = re.fullmatch(r"(\d+)([KMGT]?)", soft)
    if match is None:
        return "infinity"
    return str(int(match[1]) << (10 * " KMGT".index(match[2] or " ")))


def parse_span(text: str) -> float:
    """A systemd time span in seconds: `90`, `1min 30s`, `infinity`."""
    if text == "infinity":
        return float("inf")
    total = 0.0
    for number, unit in re.findall(r"([\d.]+)\s*([a-z]*)", text):
        total += float(number) * _UNITS_S.get(unit or "s", 1.0)
    return total


def parse_unit_text(text: str, settings: dict[str, tuple[str, ...]]) -> set[str]:
    """Add the settings of one file to `settings`; give the sections it has."""
    sections: set[str] = set()
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if stripped.startswith("["):
            sections.add(stripped.strip("[]"))
            continue
        key, _, value = (part.strip() for part in stripped.partition("="))
        if not value:
            settings.pop(key, None)
        elif key in LIST_KEYS:
            settings[key] = (*settings.get(key, ()), value)
        else:
            settings[key] = (value,)
    return sections


def full_name(name: str) -> str:
    """The unit name with its suffix."""
    known = (".service", ".target", ".timer", ".socket", ".mount", ".path")
    return name if name.endswith(known) else f"{name}.service"


def _template(name: str) -> str:
    stem, _, suffix = name.rpartition(".")
    base, sign, _ = stem.partition("@")
    return f"{base}@.{suffix}" if sign else name


def load_unit(root: Path, name: str) -> Unit | None:
    """Read a unit with its drop-ins from the host's files; None when there is none."""
    fragment = ""
    settings: dict[str, tuple[str, ...]] = {}
    sections: set[str] = set()
    for folder in UNIT_FOLDERS:
        path = next((p for n in (name, _template(name)) if (p := root / folder / n).exists()), None)
        if path is not None or (root / folder / name).is_symlink():
            chosen = path or root / folder / name
            fragment = "/" + str(chosen.relative_to(root))
            target = _resolve(root, chosen)
            if target is None:
                return Unit(name, fragment, settings={"LoadState": ("masked",)})
            sections = parse_unit_text(target.read_text(), settings)
            break
    builtin = name in BUILTIN_TARGETS or name in BUILTIN_SERVICES
    if not fragment and not builtin:
        return None
    drop_ins: list[str] = []
    for path in _drop_in_files(root, name):
        sections |= parse_unit_text(path.read_text(), settings)
        drop_ins.append("/" + str(path.relative_to(root)))
    return Unit(name, fragment, tuple(drop_ins), settings, frozenset(sections))


def _resolve(root: Path, path: Path) -> Path | None:
    if not path.is_symlink():
        return path
    target = path.readlink()
    if str(target) == "/dev/null":
        return None
    return root / str(target).lstrip("/") if target.is_absolute() else path.parent / target


def _drop_in_files(root: Path, name: str) -> list[Path]:
    found: dict[str, Path] = {}
    for folder in UNIT_FOLDERS:
        for stem in (name, _template(name)):
            for path in sorted((root / folder / f"{stem}.d").glob("*.conf")):
                found.setdefault(path.name, path)
    return [found[key] for key in sorted(found)]


def conditions_met(unit: Unit, root: Path) -> bool:
    """All ConditionPathExists= of a unit hold; `!` turns one round."""
    conditions = unit.settings.get("ConditionPathExists", ())
    return all(
        (root / text.lstrip("!|").lstrip("/")).exists() != text.startswith("!")
        for text in conditions
    )


def wanted_by_links(root: Path, target: str) -> list[str]:
    """Units that are enabled for a target, by the links in its .wants and .requires folders."""
    names: set[str] = set()
    for folder in UNIT_FOLDERS:
        for kind in ("wants", "requires"):
            names |= {path.name for path in (root / folder / f"{target}.{kind}").glob("*")}
    return sorted(names)


def enabled_links(root: Path, name: str) -> list[Path]:
    """The links that enable a unit.

    They are absolute inside of the host, so out here they lead nowhere: nothing may follow them.
    """
    etc = root / "etc/systemd/system"
    found = [path for kind in ("wants", "requires") for path in etc.glob(f"*.{kind}/*")]
    return sorted(path for path in found if path.name == name)


def order_units(units: Sequence[Unit]) -> list[Unit]:
    """Sort units so that each comes after those its After= and their Before= name."""
    by_name = {unit.name: unit for unit in units}
    after: dict[str, set[str]] = {
        unit.name: {n for n in unit.names("After") if n in by_name} for unit in units
    }
    for unit in units:
        for later in unit.names("Before"):
            if later in after:
                after[later].add(unit.name)
    done: list[str] = []
    waiting = sorted(by_name)
    while waiting:
        # A cycle is broken at its first unit by name; systemd too drops a job of the cycle.
        ready = next((n for n in waiting if after[n] <= set(done)), waiting[0])
        waiting.remove(ready)
        done.append(ready)
    return [by_name[name] for name in done]


@record
class ExecLine:
    """One command of a unit."""

    argv: tuple[str, ...]
    ignore_failure: bool


def parse_exec(line: str, unit: str, hostname: str, env: Mapping[str, str]) -> ExecLine:
    """Split an Exec line as systemd does: prefixes, quotes, specifiers, variables."""
    prefix = re.match(r"[-@:+!|]*", line)
    marks = prefix[0] if prefix else ""
    stem = unit.rpartition(".")[0]
    instance = stem.partition("@")[2]
    specifiers = {"n": unit, "N": stem, "i": instance, "I": instance, "H": hostname, "%": "%"}
    argv: list[str] = []
    for word in shlex.split(line[len(marks) :]):
        text = re.sub(r"%(.)", lambda m: specifiers.get(m[1], m[0]), word)
        bare = re.fullmatch(r"\$(\w+)", text)
        if bare is not None:
            argv += env.get(bare[1], "").split()
            continue
        text = re.sub(r"\$\{(\w+)\}", lambda m: env.get(m[1], ""), text)
        argv.append(text.replace("$$", "$"))
    return ExecLine(tuple(argv), "-" in marks)


def unit_environment(unit: Unit, root: Path) -> dict[str, str]:
    """Variables of Environment= and EnvironmentFile=, the files winning.

    Raises:
        FileNotFoundError: A file is missing whose name has no `-` before it.
    """
    env: dict[str, str] = {}
    for value in unit.settings.get("Environment", ()):
        for word in shlex.split(value):
            key, _, text = word.partition("=")
            env[key] = text
    for value in unit.settings.get("EnvironmentFile", ()):
        path = root / value.lstrip("-").lstrip("/")
        if not path.exists() and value.startswith("-"):
            continue
        for line in path.read_text().splitlines():
            if line.strip() and line.strip()[0] not in "#;" and "=" in line:
                key, _, text = line.strip().partition("=")
                env[key] = " ".join(shlex.split(text))
    return env
