"""The resource `kubernetes:helm.sh/v3:Release`: one real helm release in the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import yaml
from pulumi.runtime.proto import provider_pb2

from standins.kubernetes.checking import ScopeBook, diff_response
from standins.kubernetes.diff import FieldDiff, diff_fields, without_ignored
from standins.kubernetes.helm import (
    ChartRef,
    Helm,
    HelmError,
    HelmRelease,
    ReleaseNotFoundError,
    resource_names,
)
from standins.kubernetes.identity import id_of, parse_id, parse_urn, unique_name
from standins.kubernetes.state import INPUTS, InitFailedError
from standins.kubernetes.values import (
    Json,
    JsonMap,
    annotate_secrets,
    as_int,
    as_list,
    as_map,
    as_text,
    copy_map,
    from_struct,
    to_struct,
)
from standins.serve import EngineLog
from standins.values import (
    ASSET_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN,
    has_unknown,
    is_secret,
    reveal,
    seal,
)

DEFAULT_TIMEOUT_S = 300  # Pulumi's default for a Release

_FLAGS = (  # noqa: SIM905 - a list of one word a line would be longer than the class
    "atomic cleanupOnFail createNamespace dependencyUpdate devel disableCRDHooks "
    "disableOpenapiValidation disableWebhooks forceUpdate lint recreatePods renderSubchartNotes "
    "replace resetValues reuseValues skipAwait skipCrds takeOwnership verify waitForJobs"
).split()
_TEXTS = ("description", "keyring", "postrender")
_COMPUTED = ("resourceNames", "status")


def merge_values(base: JsonMap, over: JsonMap) -> JsonMap:
    """Merges helm values: maps are merged, everything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        before = result.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        result[key] = merge_values(as_map(before), as_map(value)) if both else value
    return result


@dataclass(frozen=True, slots=True)
class ReleaseSpec:
    """The inputs of a release, opened."""

    inputs: JsonMap

    def flag(self, key: str) -> bool:
        """Returns a switch; absent is off."""
        return self.inputs.get(key) is True

    def text(self, key: str) -> str:
        """Returns a text; absent is empty."""
        return as_text(self.inputs.get(key))

    @property
    def resource_id(self) -> str:
        """The release's id."""
        return id_of(self.text("namespace"), self.text("name"))

    @property
    def timeout_s(self) -> int:
        """The time that helm may wait, in seconds."""
        return as_int(self.inputs.get("timeout")) or DEFAULT_TIMEOUT_S

    @property
    def values(self) -> JsonMap:
        """The values: those of the files, then those of the program over them."""
        merged: JsonMap = {}
        for asset in as_list(self.inputs.get("valueYamlFiles")):
            merged = merge_values(merged, _load_asset(asset))
        return merge_values(merged, as_map(self.inputs.get("values")))

    @property
    def chart(self) -> ChartRef:
        """The chart reference."""
        return ChartRef(
            self.text("chart"),
            self.text("version"),
            as_map(self.inputs.get("repositoryOpts")),
            devel=self.flag("devel"),
            verify=self.flag("verify"),
            keyring=self.text("keyring"),
        )

    def install_arguments(self) -> list[str]:
        """Returns the arguments of `helm install`, values excepted."""
        flags = {
            "createNamespace": "--create-namespace",
            "disableWebhooks": "--no-hooks",
            "replace": "--replace",
            "skipCrds": "--skip-crds",
        }
        return [
            "install",
            self.text("name"),
            *self._common_arguments(),
            *(flag for key, flag in flags.items() if self.flag(key)),
        ]

    def upgrade_arguments(self) -> list[str]:
        """Returns the arguments of `helm upgrade`, values excepted."""
        flags = {
            "cleanupOnFail": "--cleanup-on-fail",
            "disableCRDHooks": "--no-hooks",
            "forceUpdate": "--force",
            "resetValues": "--reset-values",
            "reuseValues": "--reuse-values",
        }
        return [
            "upgrade",
            self.text("name"),
            *self._common_arguments(),
            "--history-max",
            str(as_int(self.inputs.get("maxHistory"))),
            *(flag for key, flag in flags.items() if self.flag(key)),
        ]

    def _common_arguments(self) -> list[str]:
        waits = not self.flag("skipAwait")
        flags = {
            "--wait": waits,
            "--wait-for-jobs": waits and self.flag("waitForJobs"),
            "--atomic": self.flag("atomic"),
            "--dependency-update": self.flag("dependencyUpdate"),
            "--disable-openapi-validation": self.flag("disableOpenapiValidation"),
            "--render-subchart-notes": self.flag("renderSubchartNotes"),
            "--take-ownership": self.flag("takeOwnership"),
        }
        result = [*self.chart.arguments(), "--namespace", self.text("namespace")]
        result += ["--timeout", f"{self.timeout_s}s"]
        result += [flag for flag, is_on in flags.items() if is_on]
        for key, flag in (("description", "--description"), ("postrender", "--post-renderer")):
            result += [flag, self.text(key)] if self.text(key) else []
        return result


@dataclass(frozen=True, slots=True)
class Releases:
    """Works on helm releases on behalf of one resource."""

    helm: Helm
    namespace: str
    log: EngineLog
    urn: str
    scopes: ScopeBook = field(default_factory=ScopeBook)

    def check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:
        """Completes a release's inputs; its version becomes the one that the chart has."""
        news = from_struct(request.news)
        plain = as_map(reveal(news))
        old = as_map(reveal(from_struct(request.olds)))
        inputs = self._defaults(plain, old, request)
        failures: list[provider_pb2.CheckFailure] = []
        if not has_unknown(plain):
            try:
                chart = ReleaseSpec(inputs).chart
                inputs["version"] = as_text(self.helm.chart_metadata(chart).get("version"))
                for crd in self.helm.chart_crds(chart):
                    self.scopes.learn(crd)
            except HelmError as error:
                reason = f"{error}; check the chart name and repository configuration."
                failures.append(provider_pb2.CheckFailure(property="chart", reason=reason))
        checked = copy_map(inputs)
        annotate_secrets(checked, news)
        return provider_pb2.CheckResponse(inputs=to_struct(checked), failures=failures)

    def diff(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:
        """Compares new inputs with what is deployed; edits of a chart of one version are unseen."""
        state = as_map(reveal(from_struct(request.olds)))
        new = as_map(reveal(from_struct(request.news)))
        old_inputs = as_map(state.get(INPUTS))
        shape = merge_values(old_inputs, new)
        old = _restrict(state, shape)
        for gone in _COMPUTED:
            old.pop(gone, None)
        fields: list[FieldDiff] = diff_fields(
            old, new, force_new=(".name", ".namespace"), built_in=False
        )
        fields = without_ignored(fields, list(request.ignoreChanges))
        return diff_response(fields, delete_before_replace=False)

    def create(self, properties: JsonMap, *, preview: bool) -> tuple[str, JsonMap]:
        """Installs a release and returns its id and the state to record.

        Raises:
            HelmError: Nothing was installed.
            InitFailedError: It was installed but is in status failed.
        """
        spec = ReleaseSpec(as_map(reveal(properties)))
        if preview:
            return "", self._preview_state(properties)
        try:
            self.helm.apply(spec.install_arguments(), spec.values, spec.timeout_s)
        except HelmError as error:
            release = self._find(spec)
            if release is None:
                raise
            self.log.warning(
                self.urn,
                f'Helm release "{spec.text("name")}" was created but has a failed status. Use the '
                f"`helm` command to investigate the error, correct it, then retry. Reason: {error}",
            )
            self.log.flush()  # the user reads the warning before the failure
            raise InitFailedError(
                f'Helm release "{spec.resource_id}" was created, but failed to initialize '
                f"completely. Use Helm CLI to investigate: {error}",
                spec.resource_id,
                self._state(properties, release),
                [],
            ) from error
        return spec.resource_id, self._state(properties, self._get(spec))

    def update(self, news: JsonMap, *, preview: bool) -> JsonMap:
        """Upgrades a release and returns the state to record.

        Raises:
            HelmError: Nothing was changed.
            InitFailedError: The upgrade failed and left the release in status failed.
        """
        spec = ReleaseSpec(as_map(reveal(news)))
        if preview:
            return self._preview_state(news)
        before = self._find(spec)
        try:
            self.helm.apply(spec.upgrade_arguments(), spec.values, spec.timeout_s)
        except HelmError as error:
            after = self._find(spec)
            if after is None or before is None or after.revision == before.revision:
                raise
            raise InitFailedError(
                f'Helm release "{spec.resource_id}" failed to initialize completely. '
                f"Use Helm CLI to investigate: {error}",
                spec.resource_id,
                self._state(news, after),
                [],
            ) from error
        return self._state(news, self._get(spec))

    def read(self, resource_id: str, olds: JsonMap) -> tuple[JsonMap, JsonMap] | None:
        """Returns state and inputs of a release as it is now; None where it is gone."""
        namespace, name = parse_id(resource_id)
        try:
            release = self.helm.get(name, namespace or self.namespace)
        except ReleaseNotFoundError:
            return None
        sealed = olds.get(INPUTS)
        inputs = as_map(as_map(sealed).get("value") if is_secret(sealed) else sealed)
        if not inputs:
            inputs["name"], inputs["namespace"] = name, release.namespace
            inputs["chart"], inputs["version"] = release.chart, release.chart_version
            inputs["values"] = release.config
        return self._state(inputs, release), inputs

    def delete(self, properties: JsonMap) -> None:
        """Uninstalls a release.

        Raises:
            HelmError: Helm failed, or there is no such release.
        """
        spec = ReleaseSpec(as_map(reveal(properties)))
        wait = spec.flag("atomic") or not spec.flag("skipAwait")
        self.helm.uninstall(
            spec.text("name"), spec.text("namespace"), wait=wait, timeout_s=spec.timeout_s
        )

    def _defaults(
        self, plain: JsonMap, old: JsonMap, request: provider_pb2.CheckRequest
    ) -> JsonMap:
        inputs: JsonMap = dict.fromkeys(_FLAGS, False)
        inputs |= dict.fromkeys(_TEXTS, "")
        kept = {key: item for key, item in plain.items() if key not in (*_COMPUTED, "compat")}
        inputs |= {key: item for key, item in kept.items() if item is not None}
        if not inputs.get("name"):
            prefix = f"{parse_urn(request.urn).name}-"
            inputs["name"] = as_text(old.get("name")) or unique_name(prefix, request.randomSeed)
        inputs["namespace"] = inputs.get("namespace") or self.namespace
        inputs.setdefault("values", {})
        if not inputs["skipAwait"]:
            inputs.setdefault("timeout", DEFAULT_TIMEOUT_S)
        return inputs

    def _find(self, spec: ReleaseSpec) -> HelmRelease | None:
        try:
            return self._get(spec)
        except ReleaseNotFoundError:
            return None

    def _get(self, spec: ReleaseSpec) -> HelmRelease:
        return self.helm.get(spec.text("name"), spec.text("namespace"))

    def _preview_state(self, inputs: JsonMap) -> JsonMap:
        computed: JsonMap = dict.fromkeys(_COMPUTED, UNKNOWN)
        return {**copy_map(inputs), INPUTS: seal(copy_map(inputs)), **computed}

    def _state(self, inputs: JsonMap, release: HelmRelease) -> JsonMap:
        plain = as_map(reveal(inputs))
        state = copy_map(plain)
        values = merge_values(ReleaseSpec(plain).values, release.config)
        state["values"] = values
        state["version"] = release.chart_version
        names: JsonMap = {
            key: cast("Json", items) for key, items in resource_names(release.manifest).items()
        }
        state["resourceNames"] = names
        state["status"] = {
            "appVersion": release.app_version,
            "chart": release.chart,
            "name": release.name,
            "namespace": release.namespace,
            "revision": release.revision,
            "status": release.status,
            "version": release.chart_version,
        }
        annotate_secrets(state, inputs)
        state[INPUTS] = seal(copy_map(inputs))
        return state


def _restrict(state: JsonMap, shape: JsonMap) -> JsonMap:
    """Returns the part of the state that inputs speak of."""
    result: JsonMap = {}
    for key, value in state.items():
        if key in shape:
            wanted = shape[key]
            both = isinstance(value, dict) and isinstance(wanted, dict)
            result[key] = _restrict(as_map(value), as_map(wanted)) if both else value
    return result


def _load_asset(asset: Json) -> JsonMap:
    """Reads a value file given as a Pulumi asset: its text, or the file at its path."""
    entry = as_map(asset)
    if entry.get(SIGNATURE_KEY) != ASSET_SIGNATURE:
        raise HelmError("unsupported type for 'valueYamlFiles' arg: only assets are read")
    text = as_text(entry.get("text"))
    if not text and as_text(entry.get("path")):
        text = Path(as_text(entry.get("path"))).read_text(encoding="utf-8")
    return as_map(cast("Json", yaml.safe_load(text)))
