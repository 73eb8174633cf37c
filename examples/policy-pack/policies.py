"""A policy pack for stacks with a Railyard `Site`."""

from __future__ import annotations

import judge
from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)


def lock(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a site without a lock."""
    if found := judge.without_lock(args.resource_type, args.props):
        report(found)


def proof(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a site of production whose update may succeed without a proof."""
    if found := judge.unproven_in_prod(args.resource_type, args.props, args.urn):
        report(found)


def secrets(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a secret in plain text."""
    if found := judge.plain_secret(args.resource_type, args.props):
        report(found)


PolicyPack(
    "railyard-sites",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        ResourceValidationPolicy("site-has-a-lock", "A site is pinned by its lock.", lock),
        ResourceValidationPolicy("prod-is-proven", "Production fails without a proof.", proof),
        ResourceValidationPolicy("no-plain-secrets", "No secret is in plain text.", secrets),
    ],
)
