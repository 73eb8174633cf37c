"""The provider protocol of the `command` stand-in: what pulumi-command 1.2.1 does on each call.

Create and Update run nothing in a preview; Delete uses the old state; Read echoes; an error
leaves no state (lab/sources.md#the-command-plugin).
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Final

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import provider_pb2
from typing_extensions import override

from standins.command.compare import Change, diff_inputs, keep_ignored, replaces
from standins.command.inputs import (
    FIELDS,
    REMOTE,
    CommandInputs,
    Failure,
    check_inputs,
    parse_inputs,
)
from standins.command.local import LocalRunner
from standins.command.outcome import CommandError, Outcome, Previous
from standins.serve import EngineLog, Plugin, RpcContext
from standins.values import UNKNOWN, Properties, decode, encode, has_unknown, reveal

if TYPE_CHECKING:
    from standins.command.remote import RemoteRunner

OUTPUTS: Final = ("stdout", "stderr")
NOT_PLAYED: Final = ("assetPaths", "archivePaths")
ID_RANDOM_BYTES: Final = 4

_KINDS: Final = {
    (Change.ADD, False): provider_pb2.PropertyDiff.ADD,
    (Change.ADD, True): provider_pb2.PropertyDiff.ADD_REPLACE,
    (Change.DELETE, False): provider_pb2.PropertyDiff.DELETE,
    (Change.DELETE, True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    (Change.UPDATE, False): provider_pb2.PropertyDiff.UPDATE,
    (Change.UPDATE, True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


class CommandPlugin(Plugin):
    """`pulumi-resource-command` in Python, for `local:Command` and `remote:Command`."""

    version = "1.2.1"

    def __init__(self, log: EngineLog) -> None:
        super().__init__(log)
        self._local = LocalRunner()
        self._remote: RemoteRunner | None = None
        self._remote_lock = threading.Lock()

    @override
    def Check(
        self, request: provider_pb2.CheckRequest, context: RpcContext
    ) -> provider_pb2.CheckResponse:
        """Fill in defaults, mark secrets, and name what cannot be accepted."""
        kind = _kind(request.urn, context)
        inputs, failures = check_inputs(kind, decode(request.news))
        unplayed = [
            Failure(key, "the lab's stand-in of the command plugin does not collect files")
            for key in NOT_PLAYED
            if inputs.get(key) is not None
        ]
        return provider_pb2.CheckResponse(
            inputs=encode(inputs),
            failures=[
                provider_pb2.CheckFailure(property=failure.property, reason=failure.reason)
                for failure in (*failures, *unplayed)
            ],
        )

    @override
    def Diff(
        self, request: provider_pb2.DiffRequest, context: RpcContext
    ) -> provider_pb2.DiffResponse:
        """Report every changed input; only `triggers` as a whole replaces from here."""
        _kind(request.urn, context)
        olds, news = decode(request.old_inputs), decode(request.news)
        changes = diff_inputs(olds, keep_ignored(olds, news, tuple(request.ignoreChanges)))
        replaced = [path for path in changes if replaces(path)]
        response = provider_pb2.DiffResponse
        return provider_pb2.DiffResponse(
            changes=response.DIFF_SOME if changes else response.DIFF_NONE,
            hasDetailedDiff=True,
            replaces=replaced,
            diffs=sorted(changes),
            detailedDiff={
                path: provider_pb2.PropertyDiff(kind=_KINDS[change, path in replaced])
                for path, change in changes.items()
            },
        )

    @override
    def Create(
        self, request: provider_pb2.CreateRequest, context: RpcContext
    ) -> provider_pb2.CreateResponse:
        """Run `create`; in a preview run nothing and leave the outputs unknown."""
        kind = _kind(request.urn, context)
        inputs = decode(request.properties)
        identity = f"{_name(request.urn)}{secrets.token_hex(ID_RANDOM_BYTES)}"
        if request.preview:
            state = {**inputs, **dict.fromkeys(OUTPUTS, UNKNOWN)}
            return provider_pb2.CreateResponse(id=identity, properties=encode(state))
        command = parse_inputs(inputs)
        previous = Previous("", "")
        outcome = self._run(kind, request.urn, command.create, command, previous, context)
        return provider_pb2.CreateResponse(id=identity, properties=_state(inputs, outcome))

    @override
    def Update(
        self, request: provider_pb2.UpdateRequest, context: RpcContext
    ) -> provider_pb2.UpdateResponse:
        """Run `update`, or `create` where there is none, with the new inputs."""
        kind = _kind(request.urn, context)
        olds = decode(request.olds)
        inputs = keep_ignored(olds, decode(request.news), tuple(request.ignoreChanges))
        previous = _previous(olds)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=_preview(olds, inputs))
        command = parse_inputs(inputs)
        text = command.create if command.update is None else command.update
        outcome = self._run(kind, request.urn, text, command, previous, context)
        return provider_pb2.UpdateResponse(properties=_state(inputs, outcome))

    @override
    def Delete(self, request: provider_pb2.DeleteRequest, context: RpcContext) -> empty_pb2.Empty:
        """Run the old `delete` over the old connection; without one, succeed at once."""
        kind = _kind(request.urn, context)
        olds = decode(request.properties)
        command = parse_inputs(olds)
        self._run(kind, request.urn, command.delete, command, _previous(olds), context)
        return empty_pb2.Empty()

    @override
    def Read(
        self, request: provider_pb2.ReadRequest, context: RpcContext
    ) -> provider_pb2.ReadResponse:
        """Echo inputs and state: a refresh of a command sees nothing."""
        del context
        return provider_pb2.ReadResponse(
            id=request.id, properties=request.properties, inputs=request.inputs
        )

    def stop_work(self) -> None:
        """End local commands; remote ones cannot be called back."""
        with self._remote_lock:
            if self._remote is not None:
                self._remote.stop()
        self._local.stop()

    def _remote_runner(self) -> RemoteRunner:
        """The runner over SSH, made for the first command that needs it: most stacks have none."""
        from standins.command.remote import RemoteRunner  # noqa: PLC0415 - a third of a start

        with self._remote_lock:
            if self._remote is None:
                self._remote = RemoteRunner()
                if self.cancelled.is_set():
                    self._remote.stop()
            return self._remote

    def _run(
        self,
        kind: str,
        urn: str,
        text: str | None,
        inputs: CommandInputs,
        previous: Previous,
        context: RpcContext,
    ) -> Outcome:
        if text is None:
            return Outcome(previous.stdout, previous.stderr)

        def log(line: str) -> None:
            self.log.info(urn, line, ephemeral=True)

        def warn(line: str) -> None:
            self.log.warning(urn, line)

        try:
            if kind == REMOTE:
                outcome = self._remote_runner().run(text, inputs, previous, log, warn)
            else:
                outcome = self._local.run(text, inputs, previous, log)
        except CommandError as error:
            self.log.flush()
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        self.log.flush()
        return outcome


def _kind(urn: str, context: RpcContext) -> str:
    """Return the resource type of a URN: the last part of its qualified type."""
    kind = urn.split("::")[2].rsplit("$", 1)[-1]
    if kind not in FIELDS:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"the lab's stand-in of the command plugin does not play {kind}; it has"
            f" {' and '.join(sorted(FIELDS))}",
        )
    return kind


def _name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _previous(olds: Properties) -> Previous:
    stdout, stderr = (reveal(olds.get(key)) for key in OUTPUTS)
    return Previous(
        stdout if isinstance(stdout, str) else "", stderr if isinstance(stderr, str) else ""
    )


def _state(inputs: Properties, outcome: Outcome) -> struct_pb2.Struct:
    return encode({**inputs, "stdout": outcome.stdout, "stderr": outcome.stderr})


def _preview(olds: Properties, inputs: Properties) -> struct_pb2.Struct:
    """Return the state a preview shows: old outputs only where no input differs from it."""
    kept = {key: olds[key] for key in OUTPUTS if key in olds}
    old_inputs = {key: value for key, value in olds.items() if key not in OUTPUTS}
    is_same = not diff_inputs(old_inputs, inputs) and not has_unknown(dict(inputs))
    return encode({**inputs, **(kept if is_same else dict.fromkeys(OUTPUTS, UNKNOWN))})
