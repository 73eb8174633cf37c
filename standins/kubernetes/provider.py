"""The provider protocol: routes each call to objects or releases, and words the errors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

import grpc
from google.protobuf import any_pb2, empty_pb2
from google.rpc import status_pb2
from pulumi.runtime.proto import provider_pb2

from standins.kubernetes.await_ready import InitError
from standins.kubernetes.checking import Checker, InputError, ScopeBook, is_patch
from standins.kubernetes.client import ApiError, NoMatchError, UnreachableError
from standins.kubernetes.helm import Helm, HelmError, helm_home
from standins.kubernetes.identity import RELEASE_TYPE, parse_gvk, parse_urn
from standins.kubernetes.kubeconfig import KubeconfigError
from standins.kubernetes.objects import ObjectError, Objects
from standins.kubernetes.release import Releases
from standins.kubernetes.settings import Cluster, Settings, connect, diff_config
from standins.kubernetes.state import INPUTS, InitFailedError
from standins.kubernetes.values import JsonMap, as_map, from_struct, to_struct
from standins.kubernetes.wait_for import WaitForError
from standins.serve import EngineLog, Plugin, RpcContext
from standins.values import has_unknown, reveal

# The release whose behaviour is played (sources.md#the-kubernetes-plugin).
VERSION = "4.34.2"
DELETE_HINT = (
    "If the cluster was deleted, you can remove this resource from Pulumi state by rerunning the "
    'operation with the PULUMI_K8S_DELETE_UNREACHABLE environment variable set to "true"'
)
_STATUS_DETAILS = "grpc-status-details-bin"  # where gRPC carries a typed error

_REFUSALS = (
    ApiError,
    HelmError,
    InitError,
    InputError,
    KubeconfigError,
    NoMatchError,
    ObjectError,
    UnreachableError,
    WaitForError,
)


class KubernetesPlugin(Plugin):
    """Plays `pulumi-resource-kubernetes`."""

    version = VERSION

    def __init__(self, log: EngineLog) -> None:
        """Starts without a cluster; Configure brings one."""
        super().__init__(log)
        self._scopes = ScopeBook()
        self._cluster = Cluster(Settings(), "default", unreachable_reason="not configured")

    def DiffConfig(  # noqa: N802 - a name of the protocol
        self, request: provider_pb2.DiffRequest, context: RpcContext
    ) -> provider_pb2.DiffResponse:
        """Says whether another configuration means another cluster."""
        with _answering(context):
            found = diff_config(from_struct(request.olds), from_struct(request.news))
            some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
            return provider_pb2.DiffResponse(
                changes=some if found.changed else none,
                diffs=found.changed,
                replaces=found.replaces,
            )

    def Configure(  # noqa: N802 - a name of the protocol
        self, request: provider_pb2.ConfigureRequest, context: RpcContext
    ) -> provider_pb2.ConfigureResponse:
        """Reaches for the cluster; an unreachable one is remembered, not refused."""
        with _answering(context):
            self._cluster = connect(dict(request.variables))
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True,
            supportsPreview=True,
            acceptResources=False,
            acceptOutputs=False,
            supports_autonaming_configuration=True,
        )

    def Check(  # noqa: N802 - a name of the protocol
        self, request: provider_pb2.CheckRequest, context: RpcContext
    ) -> provider_pb2.CheckResponse:
        """Completes a resource's inputs."""
        with _answering(context):
            if self._cluster.client is None and self._cluster.settings.skip_update_unreachable:
                self.log.warning(request.urn, "Cluster is unreachable, skipping this resource")
                return provider_pb2.CheckResponse(inputs=request.olds)
            if _is_release(request.urn):
                return self._releases(request.urn).check(request)
            return self._checker().check(request)

    def Diff(  # noqa: N802 - a name of the protocol
        self, request: provider_pb2.DiffRequest, context: RpcContext
    ) -> provider_pb2.DiffResponse:
        """Compares new inputs with recorded state."""
        with _answering(context):
            if _is_release(request.urn):
                return self._releases(request.urn).diff(request)
            return self._checker().diff(request)

    def Create(  # noqa: N802 - a name of the protocol
        self, request: provider_pb2.CreateRequest, context: RpcContext
    ) -> provider_pb2.CreateResponse:
        """Creates an object or installs a release."""
        with _answering(context):
            properties = from_struct(request.properties)
            preview = request.preview
            if not preview:
                self._demand_cluster()
            if _is_release(request.urn):
                done = self._releases(request.urn).create(properties, preview=preview)
                return provider_pb2.CreateResponse(id=done[0], properties=to_struct(done[1]))
            if preview and not self._can_dry_run(request.urn, properties):
                return provider_pb2.CreateResponse(properties=request.properties)
            created = self._objects(request.urn, properties).create(
                properties, preview=preview, timeout_s=request.timeout
            )
            return provider_pb2.CreateResponse(
                id=created.resource_id, properties=to_struct(created.state)
            )

    def Update(  # noqa: N802 - a name of the protocol
        self, request: provider_pb2.UpdateRequest, context: RpcContext
    ) -> provider_pb2.UpdateResponse:
        """Changes an object or upgrades a release."""
        with _answering(context):
            olds, news = from_struct(request.olds), from_struct(request.news)
            preview = request.preview
            if not preview:
                self._demand_cluster()
            if _is_release(request.urn):
                state = self._releases(request.urn).update(news, preview=preview)
                return provider_pb2.UpdateResponse(properties=to_struct(state))
            if preview and (has_unknown(news) or not self._is_served(request.urn, news)):
                return provider_pb2.UpdateResponse(properties=request.news)
            state = self._objects(request.urn, news).update(
                olds,
                news,
                list(request.ignoreChanges),
                preview=preview,
                timeout_s=request.timeout,
            )
            return provider_pb2.UpdateResponse(properties=to_struct(state))

    def Read(  # noqa: N802 - a name of the protocol
        self, request: provider_pb2.ReadRequest, context: RpcContext
    ) -> provider_pb2.ReadResponse:
        """Reads an object or a release; an empty id says that it is gone."""
        with _answering(context):
            if self._cluster.client is None:
                return self._read_unreachable(request)
            olds, inputs = from_struct(request.properties), from_struct(request.inputs)
            if _is_release(request.urn):
                found = self._releases(request.urn).read(request.id, olds)
                if found is None:
                    return provider_pb2.ReadResponse()
                state, now = found
            else:
                back = self._objects(request.urn, inputs).read(request.id, olds, inputs)
                if back is None:
                    return provider_pb2.ReadResponse()
                state, now = back.state, back.inputs
            return provider_pb2.ReadResponse(
                id=request.id, properties=to_struct(state), inputs=to_struct(now)
            )

    def Delete(  # noqa: N802 - a name of the protocol
        self, request: provider_pb2.DeleteRequest, context: RpcContext
    ) -> empty_pb2.Empty:
        """Deletes an object or uninstalls a release."""
        with _answering(context):
            release = _is_release(request.urn)
            if self._cluster.client is None:
                self._delete_unreachable(request.urn, release=release)
                return empty_pb2.Empty()
            olds = from_struct(request.properties)
            if release:
                self._releases(request.urn).delete(olds)
            else:
                inputs = as_map(reveal(olds.get(INPUTS)))
                self._objects(request.urn, inputs).delete(request.id, olds, request.timeout)
            return empty_pb2.Empty()

    def _checker(self) -> Checker:
        return Checker(self._cluster, self._scopes)

    def _releases(self, urn: str) -> Releases:
        helm = Helm(self._cluster.access, helm_home())
        return Releases(helm, self._cluster.namespace, self.log, urn, self._scopes)

    def _objects(self, urn: str, inputs: JsonMap) -> Objects:
        client = self._cluster.client
        if client is None:
            raise self._unreachable()
        return Objects(
            client,
            self._cluster.settings,
            self.cancelled,
            self.log,
            urn,
            patches=is_patch(parse_urn(urn).type_token, inputs),
        )

    def _demand_cluster(self) -> None:
        if self._cluster.client is None:
            raise self._unreachable()

    def _unreachable(self) -> UnreachableError:
        reason = self._cluster.unreachable_reason
        return UnreachableError(f"configured Kubernetes cluster is unreachable: {reason}")

    def _can_dry_run(self, urn: str, properties: JsonMap) -> bool:
        return (
            self._cluster.client is not None
            and self._cluster.settings.server_side_apply
            and not has_unknown(properties)
            and not is_patch(parse_urn(urn).type_token, properties)
            and self._is_served(urn, properties)
        )

    def _is_served(self, urn: str, properties: JsonMap) -> bool:
        gvk = parse_gvk(as_map(reveal(properties)), parse_urn(urn).type_token)
        return self._checker().served(gvk) is not None

    def _read_unreachable(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:
        settings = self._cluster.settings
        self.log.warning(request.urn, str(self._unreachable()))
        if settings.delete_unreachable:
            return provider_pb2.ReadResponse()
        if settings.skip_update_unreachable:
            return provider_pb2.ReadResponse(
                id=request.id, properties=request.properties, inputs=request.inputs
            )
        raise UnreachableError(
            f"failed to read resource state due to unreachable cluster. {DELETE_HINT}"
        )

    def _delete_unreachable(self, urn: str, *, release: bool) -> None:
        reason = self._cluster.unreachable_reason
        if release:
            raise UnreachableError(
                f'can\'t delete Helm Release with unreachable cluster. Reason: "{reason}"'
            )
        self.log.warning(urn, str(self._unreachable()))
        if not self._cluster.settings.delete_unreachable:
            raise UnreachableError(
                f"configured Kubernetes cluster is unreachable: {reason}. {DELETE_HINT}"
            )


def _is_release(urn: str) -> bool:
    return parse_urn(urn).type_token == RELEASE_TYPE


@contextmanager
def _answering(context: RpcContext) -> Generator[None]:
    """Turns the plugin's errors into the protocol's."""
    try:
        yield
    except InitFailedError as error:
        _abort_half_done(context, error)
    except _REFUSALS as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))


def _abort_half_done(context: RpcContext, error: InitFailedError) -> NoReturn:
    detail = provider_pb2.ErrorResourceInitFailed(
        id=error.resource_id, properties=to_struct(error.state), reasons=error.reasons
    )
    if error.inputs is not None:
        detail.inputs.CopyFrom(to_struct(error.inputs))
    packed = any_pb2.Any()
    packed.Pack(detail)
    code = grpc.StatusCode.UNKNOWN
    status = status_pb2.Status(code=2, message=str(error), details=[packed])  # 2: UNKNOWN
    context.set_trailing_metadata(((_STATUS_DETAILS, status.SerializeToString()),))
    context.abort(code, str(error))
