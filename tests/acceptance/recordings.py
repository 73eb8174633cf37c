"""The recorded logs beside the tests."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "recorded"


def load_nccl(name: str) -> str:
    return (FOLDER / "nccl" / f"{name}.txt").read_text(encoding="utf-8")


def load_perftest(name: str) -> str:
    return (FOLDER / "perftest" / f"{name}.txt").read_text(encoding="utf-8")


def load_training(name: str) -> str:
    return (FOLDER / "training" / f"{name}.txt").read_text(encoding="utf-8")


def load_deepspeed(name: str) -> str:
    return (FOLDER / "deepspeed" / f"{name}.txt").read_text(encoding="utf-8")
