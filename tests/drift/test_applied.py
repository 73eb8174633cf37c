"""Own state in the two forms in which the engine gives it.

Both answers below were recorded with the engine 3.250.0 and the command plugin 1.2.1 on a stack of
one plain command, one with secrets, and one Stash; ids and dates are left out.
"""

from __future__ import annotations

import json
from typing import cast

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


OBJECT: dict[str, Json] = {
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "a.b", "labels": {"own_part": "x"}},
    "spec": {"versions": [{"schema": {"x_kubernetes_preserve_unknown_fields": True}}]},
}
CLUSTER: dict[str, Json] = {
    f"{URN}kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition::crd": {
        "outputs": {**OBJECT, "status": {"live": "x"}, "__inputs": OBJECT, "__fieldManager": "m"}
    },
    f"{URN}railyard:jobs:Jobs$kubernetes:core/v1:Secret::login": {
        "outputs": {
            "__inputs": {
                "kind": "Secret",
                "metadata": {"name": "s"},
                "data": SECRET | {"plaintext": '{"token": "s3cret"}'},
            }
        }
    },
    f"{URN}kubernetes:helm.sh/v3:Release::gpu-operator": {
        "outputs": {
            "name": "gpu-operator",
            "namespace": "gpu",
            "description": "1: it was failed",
            "values": {"a": 1},
        }
    },
    f"{URN}pulumi:providers:kubernetes::kubernetes-provider": {"outputs": {"version": "4.34.2"}},
}


def test_objects_of_kubernetes_are_kept_as_they_were_asked_for() -> None:
    """The provider keeps the inputs beside the live object, and spells some keys otherwise."""
    exported = [{"urn": urn, **cast("dict[str, Json]", row)} for urn, row in CLUSTER.items()]
    text = json.dumps({"deployment": {"resources": exported}})
    for applied in (applied_from_outputs(CLUSTER), applied_from_export(text)):
        assert not applied.steps
        assert applied.objects == {
            "crd": {
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "a.b", "labels": {"own_part": "x"}},
                "spec": {"versions": [{"schema": {"x-kubernetes-preserve-unknown-fields": True}}]},
            },
            "login": {"kind": "Secret", "metadata": {"name": "s"}},
        }
        assert applied.releases == {
            "gpu-operator": {
                "name": "gpu-operator",
                "namespace": "gpu",
                "description": "1: it was failed",
            }
        }
        assert "s3cret" not in repr(applied)


@pytest.mark.parametrize(
    ("recorded", "text"),
    [
        ("a=1", "a=1"),
        ({"value": "a=1"}, "a=1"),
        ({"plaintext": '"a=1"'}, "a=1"),
        ({"plaintext": '{"a": 1}'}, ""),
        ({"value": 7}, ""),
        ({"ciphertext": "v1:abc"}, ""),
        ({}, ""),
        (7, ""),
        (None, ""),
    ],
)
def test_a_recorded_text_in_each_of_its_forms(recorded: Json, text: str) -> None:
    outputs = {"stdin": recorded, "create": recorded, "stdout": recorded}
    answer = {f"{URN}command:local:Command::x": {"outputs": outputs}}
    assert applied_from_outputs(answer).steps == {"x": AppliedStep(text, text, text)}


def test_what_is_no_resource_hides_none_behind_it() -> None:
    good = f"{URN}command:local:Command::good"
    answer = {
        f"{URN}command:local:Command::bad": None,
        f"{URN}command:local:Command::half": {"outputs": None},
        f"{URN}kubernetes:core/v1:Secret::unsaid": {"outputs": {"kind": "Secret"}},
        f"{URN}kubernetes:core/v1:Secret::listed": {"outputs": {"__inputs": ["x"]}},
        f"{URN}pulumi:index:Stash::gate": {"outputs": {"__inputs": {"kind": "Secret"}}},
        good: {"outputs": {"stdin": "a=1"}},
    }
    found = applied_from_outputs(answer)
    assert found.steps == {"good": AppliedStep("a=1")}
    assert found.objects == {"unsaid": {}, "listed": {}}
    assert found.releases == {}


def test_an_exported_resource_without_a_name_is_passed_over() -> None:
    resources = [
        {"outputs": {"stdin": "b=2"}},
        {"urn": f"{URN}command:local:Command::x", "outputs": {"stdin": "a=1"}},
        {"urn": f"{URN}command:local:Command::y"},
    ]
    found = applied_from_export(json.dumps({"deployment": {"resources": resources}}))
    assert found.steps == {"x": AppliedStep("a=1"), "y": AppliedStep()}


def test_instances_are_what_the_steps_that_await_them_printed() -> None:
    applied = Applied(
        {
            "vm-0-await": AppliedStep(stdout='{"public_ip": "10.0.0.1"}\n'),
            "vm-1-await": AppliedStep(stdout=" \n"),
            "vm-2-host": AppliedStep(stdout="done"),
        }
    )
    assert applied.instances == {"vm-0": {"public_ip": "10.0.0.1"}}


def test_an_object_keeps_its_plain_values_of_each_kind() -> None:
    body: dict[str, Json] = {
        "spec": {
            "replicas": 2,
            "paused": False,
            "note": None,
            "args": ["a_b", {"x_kubernetes_int_or_string": True}, {"token": SECRET}],
        }
    }
    answer = {f"{URN}kubernetes:apps/v1:Deployment::d": {"outputs": {"__inputs": body}}}
    assert applied_from_outputs(answer).objects["d"] == {
        "spec": {
            "replicas": 2,
            "paused": False,
            "note": None,
            "args": ["a_b", {"x-kubernetes-int-or-string": True}, {}],
        }
    }


def test_a_list_that_holds_a_secret_is_left_out_whole() -> None:
    """One item less would compare the others with the wrong ones, and show the envelope."""
    sealed = SECRET | {"plaintext": '"s3cret"'}
    body: dict[str, Json] = {
        "spec": {
            "args": ["--token", sealed],
            "rows": [["a"], [sealed]],
            "env": [{"name": "A", "value": "b"}, {"name": "TOKEN", "value": sealed}],
        }
    }
    answer = {f"{URN}kubernetes:apps/v1:Deployment::d": {"outputs": {"__inputs": body}}}
    assert applied_from_outputs(answer).objects["d"] == {
        "spec": {"env": [{"name": "A", "value": "b"}, {"name": "TOKEN"}]}
    }
