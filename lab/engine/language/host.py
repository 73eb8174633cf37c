"""`pulumi-language-python` in small: the calls that `pulumi preview|up|refresh|destroy` make.

What it must do (lab/sources.md#pulumi): print a port, serve LanguageRuntime, run
each program in a process of its own, and take SIGINT as the engine's way of saying goodbye.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2
from typing_extensions import override

from lab.engine.language.packages import required_packages
from lab.engine.language.program import EXIT_SHOWN
from standins.serve import GRPC_OPTIONS, RpcContext, watch_parent

PROGRAM: Final = Path(__file__).with_name("program.py")
VERSION: Final = "3.250.0"
HOST_THREADS: Final = 8


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Serves one engine process."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._programs: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    @override
    def Handshake(
        self, request: language_pb2.LanguageHandshakeRequest, context: RpcContext
    ) -> language_pb2.LanguageHandshakeResponse:
        """Note the engine's address."""
        del context
        self._engine = request.engine_address or self._engine
        return language_pb2.LanguageHandshakeResponse()

    @override
    def GetPluginInfo(self, request: empty_pb2.Empty, context: RpcContext) -> plugin_pb2.PluginInfo:
        """Return the version of the engine that this host is written for."""
        del request, context
        return plugin_pb2.PluginInfo(version=VERSION)

    @override
    def GetRequiredPackages(
        self, request: language_pb2.GetRequiredPackagesRequest, context: RpcContext
    ) -> language_pb2.GetRequiredPackagesResponse:
        """Name the plugins that the installed Python packages ask for."""
        del request, context
        return language_pb2.GetRequiredPackagesResponse(
            packages=[
                plugin_pb2.PackageDependency(
                    name=package.name, kind="resource", version=package.version
                )
                for package in required_packages()
            ]
        )

    @override
    def GetRequiredPlugins(
        self, request: language_pb2.GetRequiredPluginsRequest, context: RpcContext
    ) -> language_pb2.GetRequiredPluginsResponse:
        """Answer the older question with nothing: the engine asks for packages."""
        del request, context
        return language_pb2.GetRequiredPluginsResponse()

    @override
    def About(
        self, request: language_pb2.AboutRequest, context: RpcContext
    ) -> language_pb2.AboutResponse:
        """Return which Python runs the programs."""
        del request, context
        version = ".".join(str(part) for part in sys.version_info[:3])
        return language_pb2.AboutResponse(executable=sys.executable, version=version)

    @override
    def RuntimeOptionsPrompts(
        self, request: language_pb2.RuntimeOptionsRequest, context: RpcContext
    ) -> language_pb2.RuntimeOptionsResponse:
        """Ask nothing."""
        del request, context
        return language_pb2.RuntimeOptionsResponse()

    @override
    def GetProgramDependencies(
        self, request: language_pb2.GetProgramDependenciesRequest, context: RpcContext
    ) -> language_pb2.GetProgramDependenciesResponse:
        """Return the packages by their plugin names."""
        del request, context
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=package.name, version=package.version)
                for package in required_packages()
            ]
        )

    @override
    def Cancel(self, request: empty_pb2.Empty, context: RpcContext) -> empty_pb2.Empty:
        """Interrupt running programs."""
        del request, context
        self.interrupt()
        return empty_pb2.Empty()

    @override
    def Run(
        self, request: language_pb2.RunRequest, context: RpcContext
    ) -> language_pb2.RunResponse:
        """Run the program to its end; an error that it has shown is told as such, not twice."""
        del context
        python, directory = _python(request), _directory(request)
        program = request.info.entry_point or request.program or "."
        with self._lock:
            child = subprocess.Popen(
                [python, str(PROGRAM), *_arguments(request, self._engine, directory), program],
                cwd=directory,
                env=_environment(request),
                stdin=subprocess.DEVNULL,
            )
            self._programs.add(child)
        status = child.wait()
        with self._lock:
            self._programs.discard(child)
        if status == 0:
            return language_pb2.RunResponse()
        if status in {EXIT_SHOWN, 128 + signal.SIGINT, -signal.SIGINT}:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"the program ended with exit status {status}")

    @override
    def InstallDependencies(
        self, request: language_pb2.InstallDependenciesRequest, context: RpcContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """Install nothing: programs and packages use an environment that is there."""
        del request, context
        yield from ()

    @override
    def RunPlugin(
        self, request: language_pb2.RunPluginRequest, context: RpcContext
    ) -> Iterator[language_pb2.RunPluginResponse]:
        """Run a component package or a policy pack, and pass on what it prints, until it ends."""
        start = ["-m", "pulumi.policy"] if request.kind == "analyzer" else []
        folder = request.info.program_directory
        arguments = [*request.args, folder] if start else [folder, *request.args]
        child = subprocess.Popen(
            [_python(request), "-u", *start, *arguments],
            cwd=request.pwd,
            env=dict(line.split("=", 1) for line in request.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        context.add_callback(child.terminate)
        with child, self._running(child):
            for line in child.stdout or ():
                yield language_pb2.RunPluginResponse(stdout=line)
        yield language_pb2.RunPluginResponse(exitcode=child.returncode)

    @contextmanager
    def _running(self, child: subprocess.Popen[bytes]) -> Generator[None]:
        with self._lock:
            self._programs.add(child)
        try:
            yield
        finally:
            with self._lock:
                self._programs.discard(child)

    def interrupt(self) -> None:
        """End the programs that still run."""
        with self._lock:
            for child in self._programs:
                child.send_signal(signal.SIGINT)


def _arguments(request: language_pb2.RunRequest, engine: str, directory: str) -> list[str]:
    values = {
        "monitor": request.monitor_address,
        "engine": engine or (request.args[0] if request.args else ""),
        "project": request.project,
        "root_directory": request.info.root_directory,
        "stack": request.stack,
        "pwd": directory,
        "dry_run": "true" if request.dryRun else "false",
        "parallel": str(request.parallel),
        "organization": request.organization or "organization",
    }
    return [part for name, value in values.items() if value for part in (f"--{name}", value)]


def _environment(request: language_pb2.RunRequest) -> dict[str, str]:
    return {
        **os.environ,
        "PULUMI_CONFIG": json.dumps(dict(request.config)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
    }


def _directory(request: language_pb2.RunRequest) -> str:
    return request.info.program_directory or request.pwd or str(Path.cwd())


def _python(request: language_pb2.RunRequest | language_pb2.RunPluginRequest) -> str:
    """Return the virtual environment's Python that the project's file names, else our own."""
    options = request.info.options.fields
    if "virtualenv" in options:
        root = Path(request.info.root_directory or request.pwd)
        python = root / options["virtualenv"].string_value / "bin" / "python"
        if python.exists():
            return str(python)
    return sys.executable


def main() -> int:
    """Serve until the engine says goodbye."""
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    host = LanguageHost(addresses[-1] if addresses else "")
    stop = threading.Event()
    watch_parent(stop)
    server = grpc.server(futures.ThreadPoolExecutor(HOST_THREADS), options=GRPC_OPTIONS)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    stop.wait()
    host.interrupt()
    server.stop(grace=None)
    os._exit(0)
