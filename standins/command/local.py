"""Run `command:local:Command` programs: a shell beside the plugin, in a group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import IO, Final

from standins.command.inputs import CommandInputs
from standins.command.outcome import CommandError, LogLine, Outcome, Previous, Recorder

GRACE_S: Final = 3.0
"""How long a cancelled command may put itself in order between SIGTERM and SIGKILL."""
CHUNK_BYTES: Final = 65536
# Go's names of the signals that end commands (os/exec: "signal: killed").
_SIGNAL_NAMES: Final = {
    signal.SIGHUP: "hangup",
    signal.SIGINT: "interrupt",
    signal.SIGQUIT: "quit",
    signal.SIGABRT: "aborted",
    signal.SIGKILL: "killed",
    signal.SIGSEGV: "segmentation fault",
    signal.SIGTERM: "terminated",
}


class LocalRunner:
    """Starts local commands and can end all that are running."""

    def __init__(self) -> None:
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, command: str, inputs: CommandInputs, previous: Previous, log: LogLine) -> Outcome:
        """Run one command to its end.

        Raises:
            CommandError: It could not be started, failed, or was cancelled.

        """
        recorder = Recorder(log, inputs.log_stdout, inputs.log_stderr)
        child = self._start(command, inputs, previous)
        try:
            _exchange(child, inputs.stdin, recorder)
            status = child.wait()
        finally:
            with self._lock:
                self._children.discard(child)
        return recorder.outcome(command, _describe(status))

    def stop(self) -> None:
        """End every running command and its children: SIGTERM, then SIGKILL after the grace."""
        with self._lock:
            self._stopped = True
            children = tuple(self._children)
        for child in children:
            _signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=max(0.0, deadline - time.monotonic()))
        for child in children:
            _signal_group(child, signal.SIGKILL)

    def _start(
        self, command: str, inputs: CommandInputs, previous: Previous
    ) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **inputs.environment}
        if inputs.add_previous_output:
            environment.update(previous.environment())
        with self._lock:
            if self._stopped:
                raise CommandError("the update was cancelled; the command was not started")
            try:
                child = subprocess.Popen(
                    [*inputs.interpreter, command],
                    cwd=inputs.directory,
                    env=environment,
                    stdin=subprocess.PIPE if inputs.stdin else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                where = inputs.directory or inputs.interpreter[0]
                raise CommandError(
                    f"cannot start the command in or with {where}: {error}"
                ) from None
            self._children.add(child)
            return child


def _exchange(child: subprocess.Popen[bytes], stdin: str, recorder: Recorder) -> None:
    """Feed the command and read both outputs until it has closed them."""
    lock = threading.Lock()

    def read(stream: IO[bytes] | None, *, is_stderr: bool) -> None:
        if stream is None:
            return
        with stream:
            while data := os.read(stream.fileno(), CHUNK_BYTES):
                with lock:
                    recorder.add(data, is_stderr=is_stderr)

    def feed() -> None:
        if child.stdin is not None:
            # A command need not read its input to the end, and may end before it is written.
            with contextlib.suppress(BrokenPipeError), child.stdin:
                child.stdin.write(stdin.encode())

    threads = [
        threading.Thread(target=read, args=(child.stderr,), kwargs={"is_stderr": True}),
        threading.Thread(target=feed),
    ]
    for thread in threads:
        thread.start()
    read(child.stdout, is_stderr=False)
    for thread in threads:
        thread.join()


def _describe(status: int) -> str | None:
    if status == 0:
        return None
    if status > 0:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        number = signal.Signals(-status)
        return f"signal: {_SIGNAL_NAMES.get(number, number.name)}"
    return f"signal: signal {-status}"


def _signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # The child leads its group and session, so its pid names the group, even after it has ended.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
