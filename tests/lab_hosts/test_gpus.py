"""What nvidia-smi says of a lab host's GPUs, sound and with one fault each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from components.core.errors import UsageError
from lab.hosts.gpu_faults import cause_gpu_fault, gpu_views
from lab.hosts.model import HostModel
from lab.hosts.tools.call import ToolCall
from lab.hosts.tools.gpus import nvidia_smi
from lab.views import HcaConfig
from tests.lab_hosts.conftest import make_host

CSV = "--format=csv,noheader,nounits"


@pytest.fixture
def model(tmp_path: Path) -> HostModel:
    adapters = (HcaConfig("mlx5_0", "0000:40:00.0", 400, "InfiniBand", 0),)
    config = replace(make_host("gpu01", "127.0.0.1"), gpus=8, hcas=adapters)
    model = HostModel(config, tmp_path / "nvram.json")
    model.boot("gpu01")
    return model


def say(model: HostModel, *argv: str, loaded: bool = False) -> list[str]:
    call = ToolCall("nvidia-smi", argv, 0, 0, "/", model, model.root)
    return nvidia_smi(call, loaded=loaded).out.splitlines()


def test_numbers_have_units_unless_they_are_not_wanted(model: HostModel) -> None:
    fields = "--query-gpu=index,clocks.sm,enforced.power.limit"
    assert say(model, fields, "--format=csv,noheader")[0] == "0, 345 MHz, 700.00 W"
    assert say(model, fields, CSV, loaded=True)[7] == "7, 1980, 700.00"


def test_every_nvlink_has_its_speed_and_its_errors(model: HostModel) -> None:
    speeds = say(model, "nvlink", "-s")
    assert speeds[1] == "\t Link 0: 26.562 GB/s"
    assert len(speeds) == 8 * 19
    assert say(model, "nvlink", "-e")[3] == "\t Link 0: CRC Errors: 0"


@pytest.mark.parametrize(
    ("words", "field", "said"),
    [
        (("gpu-width", "3", "8"), "pcie.link.width.current", "8"),
        (("gpu-gen", "3", "1"), "pcie.link.gen.current", "1"),
        (("gpu-ecc", "3", "2"), "ecc.errors.uncorrected.volatile.total", "2"),
    ],
)
def test_a_fault_shows_at_its_gpu_alone(
    model: HostModel, words: tuple[str, str, str], field: str, said: str
) -> None:
    before = say(model, f"--query-gpu={field}", CSV)
    cause_gpu_fault(model, words[0], words[1:])
    after = say(model, f"--query-gpu={field}", CSV)
    assert after[3] == said
    assert [line for n, line in enumerate(after) if n != 3] == before[1:]


def test_a_boot_counts_errors_anew_and_heals_no_link(model: HostModel) -> None:
    cause_gpu_fault(model, "gpu-ecc", ("3", "2"))
    cause_gpu_fault(model, "gpu-width", ("3", "8"))
    model.boot("gpu01")
    assert (gpu_views(model)[3].uncorrected, gpu_views(model)[3].pcie_width) == (0, 8)


def test_a_gpu_off_the_bus_ends_every_call(model: HostModel) -> None:
    cause_gpu_fault(model, "gpu-lost", ("7", "on"))
    words = ["Unable to determine the device handle for GPU0000:89:00.0: Unknown Error"]
    assert say(model, "-L") == say(model, "nvlink", "-s") == words
    cause_gpu_fault(model, "gpu-lost", ("7", "off"))
    assert len(say(model, "-L")) == 8


@pytest.mark.parametrize(
    "words",
    [("gpu-lost", "8", "on"), ("gpu-lost", "0", "2"), ("gpu-gen", "0", "6"), ("gpu-ecc", "0", "x")],
)
def test_a_wrong_word_is_refused(model: HostModel, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"GPU|takes"):
        cause_gpu_fault(model, words[0], words[1:])
