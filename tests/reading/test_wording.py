"""Refusals in the user's words: what is offered is something that the field takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from components.core.problem import Finding
from components.model.cluster import ClusterSpec
from components.model.switch_models import Schedule
from components.reading.load import parse_site
from components.reading.loose import find_loose_types
from components.reading.members import models_in, pattern_of
from components.reading.patterns import PATTERNS
from components.reading.wording import did_you_mean
from tests.checks.cases import CLEAN

_EIGHT = "[0, 0, 0, 0, 0, 0, 0, 0]"
_SEVEN = "[0, 0, 0, 0, 0, 0, 0]"
_SHA = "6f0b44c8a5b0e5f4c1a9d7b2e3f60718293a4b5c6d7e8f90112233445566778f"


def _problems(defaults: str) -> list[Finding]:
    text = CLEAN.read_text(encoding="utf-8")
    text = re.sub(r"(?m)^host_defaults: .*$", f"host_defaults: {{{defaults}}}", text)
    return list(parse_site(text, "x").problems)


@pytest.mark.parametrize(
    ("defaults", "what", "fix"),
    [
        (
            f"qos: {{buffers: {{size_bytes: {_SEVEN}, priorities: {_EIGHT}}}}}",
            "host_defaults.qos.buffers.size_bytes has 7 entries, and 8 are expected.",
            (
                "write 8 entries - Sizes of buffers 0 to 7 in bytes, as `mlnx_qos --buffer_size` "
                "takes them."
            ),
        ),
        (
            f"qos: {{buffers: {{size_bytes: {_EIGHT}, priorities: {_EIGHT[:-1]}, 0]}}}}",
            "host_defaults.qos.buffers.priorities has 9 entries, and 8 are expected.",
            (
                "write 8 entries - The buffer of each priority 0 to 7, as `mlnx_qos --prio2buffer` "
                "takes it."
            ),
        ),
        (
            f"driver: {{kind: doca_ofed, sha256: {_SHA.upper()}}}",
            "which is not a SHA-256 checksum of 64 hexadecimal digits in small letters.",
            f"write {_SHA}.",
        ),
        (
            'driver: {packages: ["doca-ofed=3.2.0"]}',
            (
                'host_defaults.driver.packages[0] is "doca-ofed=3.2.0", which is not the name of a '
                "package without a version, such as doca-ofed."
            ),
            "write doca-ofed.",
        ),
        (
            'driver: {packages: ["mft tools"]}',
            "which is not the name of a package without a version, such as doca-ofed.",
            "write the name of a package without a version, such as doca-ofed.",
        ),
        (
            "driver: {version: 3.2}",
            "host_defaults.driver.version is the number 3.2, and a text is expected.",
            "write a version such as 3.2.0 or 24.10-1.1.4.0, in quotes.",
        ),
        (
            "driver: {version: 24}",
            "host_defaults.driver.version is the number 24, and a text is expected.",
            "write a version such as 3.2.0 or 24.10-1.1.4.0, in quotes.",
        ),
        (
            "gpu_driver_version: 580",
            "host_defaults.gpu_driver_version is the number 580, and a text is expected.",
            "write a version of a GPU driver such as 580.126.20, in quotes.",
        ),
        (
            "gpu_driver_version: 580.126",
            "host_defaults.gpu_driver_version is the number 580.126, and a text is expected.",
            "write a version of a GPU driver such as 580.126.20, in quotes.",
        ),
        (
            "user: rocky",
            'host_defaults.user is the text "rocky", and a mapping of keys to values is expected.',
            "write a mapping; its keys are name, uid.",
        ),
    ],
)
def test_refusal_says_what_is_right(defaults: str, what: str, fix: str) -> None:
    [problem] = _problems(defaults)
    assert problem.what.endswith(what)
    assert problem.fix == fix


def test_a_mapping_of_names_does_not_list_the_keys_of_what_it_names() -> None:
    text = CLEAN.read_text(encoding="utf-8")
    [problem] = parse_site(f"{text}stacks: {{units: [leaf-01]}}\n", "x").problems
    assert problem.fix == "write a mapping of keys to values."


def test_a_cluster_of_another_tool_is_named() -> None:
    text = CLEAN.read_text(encoding="utf-8").replace(
        "kubernetes:\n", "kubernetes:\n  plane: rke2\n", 1
    )
    (problem,) = parse_site(text, "x").problems
    assert "`existing` takes a cluster that another tool made" in problem.fix


def test_a_text_is_no_file_of_its_own() -> None:
    [problem] = _problems(f"gpu_driver_version: '{'5' * 5000}'")
    assert problem.what.endswith(" has 5000 characters, and at most 4000 are expected.")
    assert len(str(problem)) < 1000
    assert problem.fix == "write a text of at most 4000 characters."


def test_a_number_that_is_a_serial_is_offered_in_quotes() -> None:
    text = CLEAN.read_text(encoding="utf-8")
    [problem] = parse_site(text.replace("numa: 0}", "numa: 0, serial: 1234567}", 1), "x").problems
    assert problem.fix == 'write a text, with quotes: "1234567".'
    [problem] = parse_site(text.replace("numa: 0}", 'numa: 0, serial: "a b"}', 1), "x").problems
    assert "which is not a serial number as `lspci -vv` shows it" in problem.what


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for info in model.model_fields.values():
        for inner in models_in(info.annotation):
            yield from _models(inner)


def test_every_pattern_of_the_model_has_words() -> None:
    found = {
        pattern
        for model in set(_models(ClusterSpec))
        for key in model.model_fields
        if (pattern := pattern_of(model, key))
    }
    assert len(found) > 8
    assert found <= PATTERNS.keys()


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("nvidia_peermem", ("peermem", "dma_buf", "none", "nv_peer_mem"), "peermem"),
        ("nvidia-peermem", ("peermem", "dma_buf", "none", "nv_peer_mem"), "peermem"),
        ("rial", ("serial", "rail", "pci"), "rail"),
        ("gpu2", ("gpu01", "gpu02"), "gpu02"),
        ("gpu3", ("gpu03", "gpu13"), "gpu03"),
        ("connectx-7", ("ConnectX-6", "ConnectX-7"), "ConnectX-7"),
        ("ConnectX-4", ("ConnectX-5", "ConnectX-8"), ""),
        ("speed", ("pci", "speed_gbit_s"), "speed_gbit_s"),
        ("rail-7", ("rail-0", "rail-1"), ""),
    ],
)
def test_a_hint_leads_to_what_was_meant(word: str, known: tuple[str, ...], hint: str) -> None:
    assert did_you_mean(word, known) == (f" Did you mean `{hint}`?" if hint else "")


def test_true_of_a_kernel_setting_is_a_number() -> None:
    [problem] = _problems("kernel: {sysctls: {kernel.sysrq: true}}")
    assert problem.fix == "write 1: the kernel wants the number."


def test_a_quoted_number_in_a_mapping_of_numbers_is_refused() -> None:
    (problem,) = find_loose_types(Schedule, {"shares": {"3": "50"}})
    assert problem.what == 'shares["3"] is the text "50", and a whole number is expected.'
