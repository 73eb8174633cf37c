"""Own state in the two forms in which the engine gives it.

Both answers below were recorded with the engine 3.250.0 and the command plugin 1.2.1 on a stack of
one plain command, one with secrets, and one Stash; ids and dates are left out.
"""

from __future__ import annotations

import json

import pytest

from components.core.problem import Json
from components.drift.applied import (
    Applied,
    AppliedStep,
    applied_from_export,
    applied_from_outputs,
)

URN = "urn:pulumi:dev::probe::"
SECRET: dict[str, Json] = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}

ANSWER: dict[str, Json] = {
    f"{URN}command:local:Command::plain-step": {
        "outputs": {
            "addPreviousOutputInEnv": False,
            "create": "echo plain",
            "logging": "none",
            "stderr": "",
            "stdin": "a=1\n",
            "stdout": "plain",
        },
        "type": "command:local:Command",
    },
    f"{URN}railyard:hosts:Hosts$command:remote:Command::secret-step": {
        "outputs": {
            "addPreviousOutputInEnv": False,
            "create": "cat",
            "environment": {"X": "s3cret"},
            "logging": "none",
            "stderr": "",
            "stdin": "token",
            "stdout": "token",
        },
        "type": "command:remote:Command",
    },
    f"{URN}pulumi:index:Stash::gate": {
        "outputs": {"input": "x", "output": "x"},
        "type": "pulumi:index:Stash",
    },
    f"{URN}pulumi:providers:command::default_1_2_1": {
        "outputs": {"version": "1.2.1"},
        "type": "pulumi:providers:command",
    },
    f"{URN}pulumi:pulumi:Stack::probe-dev": {"outputs": {}, "type": "pulumi:pulumi:Stack"},
}
"""`readStackResourceOutputs`: secrets come in clear."""

EXPORT: dict[str, Json] = {
    "version": 3,
    "deployment": {
        "resources": [
            {"urn": f"{URN}pulumi:pulumi:Stack::probe-dev", "type": "pulumi:pulumi:Stack"},
            {
                "urn": f"{URN}command:local:Command::plain-step",
                "type": "command:local:Command",
                "inputs": {"create": "echo plain", "stdin": "a=1\n"},
                "outputs": {"create": "echo plain", "stdin": "a=1\n", "stdout": "plain"},
            },
            {
                "urn": f"{URN}railyard:hosts:Hosts$command:remote:Command::secret-step",
                "type": "command:remote:Command",
                "outputs": {
                    "create": "cat",
                    "stdin": SECRET | {"plaintext": '"token"'},
                    "stdout": SECRET | {"plaintext": '"token"'},
                },
            },
        ]
    },
}
"""`pulumi stack export --show-secrets`: secrets are JSON text in an envelope."""


def test_the_engines_answer_and_an_export_say_the_same() -> None:
    expected = {
        "plain-step": AppliedStep(stdin="a=1\n", create="echo plain", stdout="plain"),
        "secret-step": AppliedStep(stdin="token", create="cat", stdout="token"),
    }
    assert applied_from_outputs(ANSWER).steps == expected
    assert applied_from_export(json.dumps(EXPORT)).steps == expected


def test_an_export_without_secrets_shown_has_no_text_for_them() -> None:
    text = json.dumps(EXPORT).replace("plaintext", "ciphertext")
    assert applied_from_export(text).step("secret-step") == AppliedStep(create="cat")


@pytest.mark.parametrize("answer", [None, {}, [], "", {f"{URN}command:local:Command::x": None}])
def test_an_empty_stack_has_applied_nothing(answer: object) -> None:
    assert applied_from_outputs(answer) == Applied()


@pytest.mark.parametrize("text", ["{}", '{"version": 3, "deployment": {}}'])
def test_an_export_of_an_empty_stack_has_applied_nothing(text: str) -> None:
    assert applied_from_export(text) == Applied()


def test_a_step_that_was_never_applied_is_none() -> None:
    assert applied_from_outputs(ANSWER).step("plain-step-2") is None
