"""Run one Pulumi program in this process: the child of the language host.

It follows the interface of the SDK's own exec shim (sources.md#pulumi): the same
arguments, the configuration in PULUMI_CONFIG and PULUMI_CONFIG_SECRET_KEYS, exit status 32 when
the error was shown already. It is started by path, so it imports nothing of this project.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import logging
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from pathlib import Path
from types import ModuleType

LATER = frozenset({"dill", "pulumi.automation", "requests"})
"""What the SDKs import and a program seldom needs: a twelfth of the time of all imports."""


class _Later(MetaPathFinder):
    """Loads the modules of LATER when somebody first uses them (`importlib.util.LazyLoader`)."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find one of them; all others are for the next finder."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


sys.meta_path.insert(0, _Later())
gc.disable()  # while the SDK is imported: many objects, and none of them is garbage
import pulumi  # noqa: E402 - see above
import pulumi.runtime  # noqa: E402 - the same

gc.set_threshold(1_000_000)  # as components.core.start has it: this process lives for seconds
gc.enable()

EXIT_SHOWN = 32
PR_SET_PDEATHSIG = 1  # linux/prctl.h
THREADS_PER_SLOT = 4
"""The SDK's shim: each parallel registration may hold a few threads."""


def main() -> int:
    """Run the program that the arguments name.

    Returns:
        0, or 32 when an error has been shown, or 130 when interrupted.

    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    arguments = _parse_arguments()
    _configure(arguments)
    os.chdir(arguments.pwd)
    sys.argv = [arguments.program, *arguments.args]
    sys.path[0] = arguments.pwd
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    executor = ThreadPoolExecutor(max_workers=THREADS_PER_SLOT * max(arguments.parallel, 1))
    loop.set_default_executor(executor)
    asyncio.set_event_loop(loop)
    try:
        return _run(loop, arguments.program)
    except KeyboardInterrupt:  # between the program's end and ours
        return 128 + signal.SIGINT
    finally:
        # The engine ends us with SIGINT once an update failed: the clean-up is no news to anyone.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        executor.shutdown(wait=False, cancel_futures=True)
        loop.close()
        sys.stdout.flush()
        sys.stderr.flush()


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("monitor", "engine", "project", "root_directory", "stack", "pwd", "organization"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--dry_run", type=lambda text: text == "true", default=False)
    parser.add_argument("--parallel", type=int, default=0)
    parser.add_argument("program")
    parser.add_argument("args", nargs="*")
    return parser.parse_args()


def _configure(arguments: argparse.Namespace) -> None:
    pulumi.runtime.set_all_config(
        pulumi.runtime.get_config_env(), pulumi.runtime.get_config_secret_keys_env()
    )
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            monitor=arguments.monitor,
            engine=arguments.engine,
            project=arguments.project,
            stack=arguments.stack,
            parallel=arguments.parallel,
            dry_run=arguments.dry_run,
            organization=arguments.organization,
            root_directory=arguments.root_directory,
        )
    )


def _run(loop: asyncio.AbstractEventLoop, program: str) -> int:
    def run_program() -> None:
        runpy.run_path(program, run_name="__main__")

    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(run_program))
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return EXIT_SHOWN
    except SystemExit as ending:
        return _ended(ending.code)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BaseException as error:  # noqa: BLE001 - whatever a program raises must be shown
        pulumi.log.error(describe(error, Path.cwd()))
        return EXIT_SHOWN
    return 0


def _ended(code: object) -> int:
    """Tell how a program that called sys.exit ended; sys.exit(0) and sys.exit() are fine."""
    if code is None or code == 0:
        return 0
    if isinstance(code, int):
        pulumi.log.error(f"the program ended with exit status {code}")
    else:
        pulumi.log.error(str(code))
    return EXIT_SHOWN


def describe(error: BaseException, directory: Path) -> str:
    """Return a traceback that begins in the program, without the frames that started it."""
    report = traceback.TracebackException.from_exception(error)
    own = [
        index
        for index, frame in enumerate(report.stack)
        if Path(frame.filename).is_relative_to(directory) and ".venv" not in frame.filename
    ]
    if own:
        report.stack = traceback.StackSummary.from_list(report.stack[own[0] :])
    return "Program failed with an unhandled exception:\n" + "".join(report.format())


if __name__ == "__main__":
    try:
        ended = main()
    except KeyboardInterrupt:  # before the clean-up could ignore it: the failure was shown already
        ended = 128 + signal.SIGINT
    # Threads of the program may still wait; the engine has been told all there is to tell.
    sys.stdout.flush()
    os._exit(ended)
