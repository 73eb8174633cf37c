"""The proof as two Pulumi resources: evidence, which always succeeds, and the gate."""

from __future__ import annotations

from functools import partial

import pulumi

from components.acceptance import handover
from components.kubernetes.objects import JobsReady
from components.remote.component import LocalCall, Remote, local_call
from components.remote.handoffs import AcceptanceReport, PayloadReady
from components.remote.step import env_name


class Acceptance(pulumi.ComponentResource):
    """Prove the whole path, and fail the update with the verdict table if it is not proven.

    The stage before is that of a cluster, or of containers on hosts. The same number of the run
    does not start a new proof.
    """

    report: AcceptanceReport

    def __init__(
        self,
        name: str,
        request: handover.AcceptRequest,
        remote: Remote,
        before: JobsReady | PayloadReady,
        run: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:acceptance:Acceptance", name, {}, opts)
        environment: dict[str, pulumi.Input[str]] = {}
        access = request.acceptance.access
        if access is not None and (name_of := access.kubeconfig_secret):
            environment[env_name(name_of)] = remote.secrets.require_secret(name_of)
        for endpoint in request.acceptance.endpoints:
            environment |= remote.environment(endpoint)
        store = request.acceptance.store
        reads = {env_name(each.name): each.name for each in (store.secrets if store else ())}
        reading = {key: remote.secrets.require_secret(each) for key, each in reads.items()}
        environment |= reading
        if store is not None:
            key = store.signing_key.name
            environment[env_name(key)] = remote.secrets.require_secret(key)
        # The digest of the request; the request itself goes to the archive of this machine.
        hand = partial(handover.hand_over, request, keep=not pulumi.runtime.is_dry_run())
        filled = remote.filled(handover.render_accept_request(request))
        known = isinstance(filled, str)
        stdin = hand(filled) if known else pulumi.Output.from_input(filled).apply(hand)
        words = f"evidence collect --number {run}"
        evidence = local_call(
            LocalCall(handover.EVIDENCE_STEP, words, stdin, environment),
            # A renewed key or kubeconfig alone does not start a new proof: the next one takes it.
            pulumi.ResourceOptions(
                parent=self,
                depends_on=[before.gate],
                ignore_changes=["environment"]
                if remote.note(handover.EVIDENCE_STEP) == handover.UNASKED
                else [],
            ),
        )
        gate = local_call(
            LocalCall(
                handover.VERDICT_STEP,
                f"evidence gate --{request.acceptance.gate} --stack {request.stack}",
                evidence.stdout.apply(partial(handover.for_gate, request.plan_digest)),
                reading,
            ),
            pulumi.ResourceOptions(parent=self, depends_on=[evidence]),
        )
        self.report = AcceptanceReport(gate.stdout)
        self.register_outputs({})
