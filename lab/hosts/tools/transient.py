"""`systemd-run`: a command as a transient unit, now or later."""

from __future__ import annotations

from lab.hosts.supervisor import Supervisor
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.options import Options, split_options
from lab.hosts.units import Unit, full_name, parse_span

VALUED = ("--unit", "-u", "--on-active", "-p", "--property", "--setenv", "-E", "--description")
FLAGS = (
    "--collect",
    "-G",
    "--quiet",
    "-q",
    "--no-block",
    "--no-ask-password",
    "--system",
    "--wait",
)


async def systemd_run(supervisor: Supervisor, call: ToolCall) -> ToolResult:
    """`systemd-run [--unit=U] [--on-active=S] [-p K=V] [--collect] [--wait] COMMAND…`."""
    if call.uid:
        text = "Failed to start transient service unit: Interactive authentication required.\n"
        return ToolResult(1, err=text)
    options = split_options(call.argv, VALUED, FLAGS, mixed=False)
    if isinstance(options, str):
        text = f"systemd-run: unrecognized option '{options}'\n"
        return call.unmodelled(ToolResult(1, err=text))
    name = full_name(options.last("--unit", "-u", default=f"run-r{len(supervisor.states):08x}"))
    if name in supervisor.transient:
        text = f"Failed to start transient service unit: Unit {name} already exists.\n"
        return ToolResult(1, err=text)
    supervisor.transient[name] = Unit(name, settings=_settings(options))
    supervisor.states.pop(name, None)
    delay = options.last("--on-active")
    if delay:
        supervisor.run_later(name, parse_span(delay))
        timer = name.removesuffix(".service") + ".timer"
        return ToolResult(err=f"Running timer as unit: {timer}\nWill run service as unit: {name}\n")
    good = await supervisor.start(name)
    text = f"Running as unit: {name}\n"
    if not options.has("--wait"):
        return ToolResult(0 if good else 1, err=text)
    supervisor.transient.pop(name, None)
    state = supervisor.states.pop(name, None)
    status = abs(state.status) if state is not None else 0
    return ToolResult(0 if good else status or 1, err=text)


def _settings(options: Options) -> dict[str, tuple[str, ...]]:
    settings: dict[str, tuple[str, ...]] = {}
    for value in options.all("-p", "--property"):
        key, _, text = value.partition("=")
        settings[key] = (text,)
    variables = options.all("--setenv", "-E")
    if variables:
        settings["Environment"] = tuple(f'"{variable}"' for variable in variables)
    if options.has("--wait"):
        settings["Type"] = ("oneshot",)
    settings["ExecStart"] = (" ".join(_quote(word) for word in options.words),)
    return settings


def _quote(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped.replace("%", "%%")}"'
