"""What `docker` does with containers: run, exec, inspect, ps, start, stop, rm, logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

from lab.hosts.bridges import gpu_addresses
from lab.hosts.containers import ContainerHost, binds
from lab.hosts.docker_state import (
    Container,
    DockerState,
    digest_of,
    full_reference,
    save_state,
)
from lab.hosts.go_template import Json, TemplateError, render
from lab.hosts.stream_tools import Streams, run_on_streams
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.options import pairs, split_options
from lab.hosts.tools.packages import installed

VALUED: Final = (
    "--name", "--net", "--network", "--uts", "--ipc", "--pid", "--ulimit", "--shm-size", "--device",
    "-v", "--volume", "--mount", "-e", "--env", "--gpus", "--label", "-l", "--restart",
    "--entrypoint", "-w", "--workdir", "-u", "--user", "--cap-add", "--hostname", "-h", "--pull",
    "--runtime", "--security-opt", "--log-driver", "--stop-timeout", "--memory",
)  # fmt: skip
FLAGS: Final = ("-d", "--detach", "-i", "--interactive", "-t", "--tty", "-it", "-dit", "--rm",
                "--privileged", "--init", "--read-only")  # fmt: skip
LONG: Final = {"-v": "volume", "-e": "env", "-l": "label", "-w": "workdir", "-u": "user",
               "-h": "hostname", "--net": "network", "-d": "detach"}  # fmt: skip
REFUSED: Final = 125
"""Status of `docker run` when the daemon refuses."""
Verb = Callable[[ToolCall, Streams], Awaitable[ToolResult]]


def no_such(kind: str, name: str) -> str:
    """The client's words for what is not there."""
    return f"Error: No such {kind}: {name}\n"


class ContainerCommands:
    """The verbs on containers."""

    def __init__(self, host: ContainerHost, default_runtime: Callable[[], str]) -> None:
        """Act on `host`."""
        self._host = host
        self._default_runtime = default_runtime
        self.verbs: dict[str, Verb] = {
            "run": self._run,
            "exec": self._exec,
            "inspect": self._inspect,
            "ps": self._ps,
            "ls": self._ps,
            "start": self._start,
            "restart": self._start,
            "stop": self._stop,
            "kill": self._stop,
            "rm": self._remove,
            "logs": self._logs,
        }

    async def _run(self, call: ToolCall, streams: Streams) -> ToolResult:
        options = split_options(call.argv, VALUED, FLAGS, mixed=False)
        if isinstance(options, str):
            return call.unmodelled(ToolResult(REFUSED, err=f"unknown flag: {options}\n"))
        if not options.words:
            return ToolResult(1, err='"docker run" requires at least 1 argument.\n')
        state = self._host.state()
        reference = full_reference(options.words[0])
        image = state.images.get(reference)
        if image is None:
            text = f"Unable to find image '{reference}' locally\ndocker: Error response from "
            text += f"daemon: manifest for {reference} not found: manifest unknown.\n"
            return ToolResult(REFUSED, err=text)
        given: dict[str, list[str]] = {}
        for name, value in options.given:
            given.setdefault(LONG.get(name, name.lstrip("-")), []).append(value)
        number = digest_of(self._host.model.config.name, *call.argv, str(len(state.containers)))[7:]
        name = (given.get("name") or [f"lab_{number[:8]}"])[-1]
        container = Container(
            number, name, reference, image.id, tuple(options.words[1:]), running=True,
            boot_id=self._host.model.boot_id, options=given,
            runtime=(given.get("runtime") or [self._default_runtime()])[-1],
        )  # fmt: skip
        refusal = self._refusal(state, container)
        if refusal:
            return ToolResult(REFUSED, err=f"docker: Error response from daemon: {refusal}.\n")
        for source, _ in binds(container):
            self._host.inner_path(source).mkdir(parents=True, exist_ok=True)
        if not {"detach", "dit"} & set(given):
            return await self._foreground(call, streams, container, options.words[1:])
        state.containers[name] = container
        save_state(self._host.root, state)
        return ToolResult(out=f"{number}\n")

    def _refusal(self, state: DockerState, container: Container) -> str:
        taken = state.containers.get(container.name)
        if taken is not None:
            return (
                f'Conflict. The container name "/{container.name}" is already in use by container '
                f'"{taken.id}". You have to remove (or rename) that container to be able to reuse '
                "that name"
            )
        model = self._host.model
        has_toolkit = "nvidia-container-toolkit" in installed(self._host.root)
        if container.option("gpus") and not (has_toolkit and gpu_addresses(model.config)):
            return 'could not select device driver "" with capabilities: [[gpu]]'
        for device in container.options.get("device", []):
            there = model.nics or model.config.hcas if "infiniband" in device else False
            if not there:
                return (
                    f'error gathering device information while adding custom device "{device}": '
                    "no such file or directory"
                )
        return ""

    async def _foreground(
        self, call: ToolCall, streams: Streams, container: Container, command: tuple[str, ...]
    ) -> ToolResult:
        image = self._host.state().images.get(container.image)
        env = self._host.environment(container, image)
        return await run_on_streams(self._host.argv(container, command), env, call, streams)

    def _find(self, state: DockerState, name: str) -> Container | None:
        found = state.containers.get(name)
        return found or next(
            (c for c in state.containers.values() if len(name) > 3 and c.id.startswith(name)),  # noqa: PLR2004 - a short prefix is a name
            None,
        )

    async def _exec(self, call: ToolCall, streams: Streams) -> ToolResult:
        options = split_options(
            call.argv, ("-e", "--env", "-u", "--user", "-w", "--workdir"),
            ("-i", "--interactive", "-t", "--tty", "-it", "-d", "--detach", "--privileged"),
            mixed=False,
        )  # fmt: skip
        if isinstance(options, str):
            return call.unmodelled(ToolResult(1, err=f"unknown flag: {options}\n"))
        state = self._host.state()
        container = self._find(state, options.words[0]) if options.words else None
        if container is None:
            what = options.words[0] if options.words else ""
            return ToolResult(1, err=f"Error response from daemon: No such container: {what}\n")
        if not container.running:
            text = f"Error response from daemon: container {container.id} is not running\n"
            return ToolResult(1, err=text)
        env = self._host.environment(container, state.images.get(container.image))
        env |= pairs(options.all("-e", "--env"))
        argv = self._host.argv(container, options.words[1:])
        if options.has("-d", "--detach"):
            await _detached(argv, env)
            return ToolResult()
        if not options.has("-i", "--interactive", "-it"):
            streams.close_input()
        return await run_on_streams(argv, env, call, streams)

    async def _inspect(self, call: ToolCall, _: Streams) -> ToolResult:
        options = split_options(call.argv, ("-f", "--format", "--type"), (), mixed=True)
        if isinstance(options, str) or not options.words:
            return call.unmodelled(ToolResult(125, err=f"unknown flag: {options}\n"))
        container = self._find(self._host.state(), options.words[0])
        if container is None:
            return ToolResult(1, "[]\n", no_such("object", options.words[0]))
        value = described(container)
        template = options.last("-f", "--format")
        if not template:
            return ToolResult(out=json.dumps([value], indent=4) + "\n")
        try:
            return ToolResult(out=render(template, value) + "\n")
        except TemplateError as error:
            text = f"template parsing error: template: :1: {error}\n"
            return call.unmodelled(ToolResult(1, err=text))

    async def _ps(self, call: ToolCall, _: Streams) -> ToolResult:
        options = split_options(
            call.argv, ("-f", "--filter", "--format"), ("-a", "--all", "-q", "--quiet", "-aq"),
            mixed=True,
        )  # fmt: skip
        if isinstance(options, str):
            return call.unmodelled(ToolResult(125, err=f"unknown flag: {options}\n"))
        every = options.has("-a", "--all", "-aq")
        names = [f.removeprefix("name=") for f in options.all("-f", "--filter")]
        shown = [
            c
            for c in self._host.state().containers.values()
            if (c.running or every) and all(n.strip("^/$") in c.name for n in names)
        ]
        if options.has("-q", "--quiet", "-aq"):
            return ToolResult(out="".join(f"{c.id[:12]}\n" for c in shown))
        if template := options.last("--format"):
            values: list[Json] = [
                {"Names": c.name, "ID": c.id[:12], "Image": c.image, "Status": _status(c)}
                for c in shown
            ]
            return ToolResult(out="".join(render(template, value) + "\n" for value in values))
        rows = "".join(f"{c.id[:12]:<14} {c.image:<40} {_status(c):<20} {c.name}\n" for c in shown)
        head = f"{'CONTAINER ID':<14} {'IMAGE':<40} {'STATUS':<20} NAMES\n"
        return ToolResult(out=head + rows)

    async def _start(self, call: ToolCall, _: Streams) -> ToolResult:
        return self._each(call, running=True)

    async def _stop(self, call: ToolCall, _: Streams) -> ToolResult:
        return self._each(call, running=False)

    def _each(self, call: ToolCall, *, running: bool) -> ToolResult:
        options = split_options(call.argv, ("-t", "--time", "-s", "--signal"), (), mixed=True)
        if isinstance(options, str):
            return call.unmodelled(ToolResult(125, err=f"unknown flag: {options}\n"))
        state = self._host.state()
        out, err = "", ""
        for name in options.words:
            container = self._find(state, name)
            if container is None:
                err += f"Error response from daemon: No such container: {name}\n"
                continue
            container.running = running
            container.exit_code = 0 if running else 137
            out += f"{name}\n"
        save_state(self._host.root, state)
        return ToolResult(1 if err else 0, out, err)

    async def _remove(self, call: ToolCall, _: Streams) -> ToolResult:
        flags = {word for word in call.argv if word.startswith("-")}
        if not flags <= {"-f", "--force", "-v", "--volumes", "-fv"}:
            return call.unmodelled(ToolResult(125, err=f"unknown flag: {min(flags)}\n"))
        state = self._host.state()
        forced = bool(flags & {"-f", "--force", "-fv"})
        out, err = "", ""
        for name in (word for word in call.argv if not word.startswith("-")):
            container = self._find(state, name)
            if container is None:
                err += f"Error response from daemon: No such container: {name}\n"
            elif container.running and not forced:
                err += f"Error response from daemon: You cannot remove a running container {name}. "
                err += "Stop the container before attempting removal or force remove\n"
            else:
                del state.containers[container.name]
                out += f"{name}\n"
        save_state(self._host.root, state)
        gone = forced and "No such" in err
        return ToolResult(1 if err and not gone else 0, out, err)

    async def _logs(self, call: ToolCall, _: Streams) -> ToolResult:
        names = [word for word in call.argv if not word.startswith("-")]
        if not names or self._find(self._host.state(), names[0]) is None:
            return ToolResult(1, err=no_such("container", names[0] if names else ""))
        return ToolResult()


def _status(container: Container) -> str:
    return "Up 5 minutes" if container.running else f"Exited ({container.exit_code}) 5 minutes ago"


async def _detached(argv: list[str], env: dict[str, str]) -> None:
    await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=env,
        cwd="/",
        start_new_session=True,
    )


def described(container: Container) -> dict[str, Json]:
    """What `docker inspect` prints of a container."""
    labels: dict[str, Json] = {}
    for pair in container.options.get("label", []):
        name, _, text = pair.partition("=")
        labels[name] = text
    state: dict[str, Json] = {
        "Status": "running" if container.running else "exited",
        "Running": container.running,
        "ExitCode": container.exit_code,
        "Pid": 4242 if container.running else 0,
    }
    return {
        "Id": container.id,
        "Name": f"/{container.name}",
        "Image": container.image_id,
        "State": state,
        "Config": {
            "Image": container.image,
            "Cmd": [*container.command],
            "Env": [*container.options.get("env", [])],
            "Labels": labels,
        },
        "HostConfig": _host_config(container),
    }


def _host_config(container: Container) -> dict[str, Json]:
    limits: list[Json] = []
    for text in container.options.get("ulimit", []):
        name, _, value = text.partition("=")
        soft, _, hard = value.partition(":")
        limits.append({"Name": name, "Soft": int(soft), "Hard": int(hard or soft)})
    requests: list[Json] = []
    if container.option("gpus"):
        requests.append({"Driver": "", "Count": -1, "Capabilities": [["gpu"]]})
    devices: list[Json] = [
        {"PathOnHost": d, "PathInContainer": d} for d in container.options.get("device", [])
    ]
    return {
        "Binds": [*container.options.get("volume", [])],
        "NetworkMode": container.option("network", "default"),
        "IpcMode": container.option("ipc", "private"),
        "UTSMode": container.option("uts"),
        "ShmSize": _bytes(container.option("shm-size", "64m")),
        "Ulimits": limits,
        "Devices": devices,
        "DeviceRequests": requests,
        "Privileged": "privileged" in container.options,
        "Runtime": container.runtime,
        "RestartPolicy": {"Name": container.option("restart", "no"), "MaximumRetryCount": 0},
    }


def _bytes(text: str) -> int:
    units = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    return int(text[:-1]) * units[text[-1].lower()] if text[-1:].isalpha() else int(text)
