"""How Python ends in a rank whose image lacks the script, or a module that the script imports.

The words are CPython's, and the imports those of Horovod's benchmark
(lab/sources.md#trainer).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from lab.cluster.images import Image
from lab.cluster.pod_shell import ScriptRun

PYTHON: Final = "python"
_NO_SCRIPT: Final = 2
_EXCEPTION: Final = 1
_IMPORTS: Final = {
    "tensorflow2_synthetic_benchmark.py": (
        ("tensorflow", 20, "import tensorflow as tf"),
        ("horovod", 21, "import horovod.tensorflow as hvd"),
    )
}
"""Script to the modules that it imports, each with its line."""


def why_python_ends(call: Sequence[str], image: Image) -> ScriptRun | None:
    """How a rank's Python ends before it does anything; None where it starts.

    Args:
        call: mpirun's command.
        image: Of the worker.
    """
    script = next((path for word, path in pairwise(call) if word == PYTHON), "")
    if not script.startswith("/"):
        return None
    if not image.has(script):
        text = f"python: can't open file '{script}': [Errno 2] No such file or directory\n"
        return ScriptRun((), text, _NO_SCRIPT)
    for module, line, statement in _IMPORTS.get(script.rpartition("/")[2], ()):
        if module not in image.modules:
            text = (
                "Traceback (most recent call last):\n"
                f'  File "{script}", line {line}, in <module>\n'
                f"    {statement}\n"
                f"ModuleNotFoundError: No module named '{module}'\n"
            )
            return ScriptRun((), text, _EXCEPTION)
    return None
