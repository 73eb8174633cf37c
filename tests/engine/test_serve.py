"""A plugin or a language host ends with its engine, however the engine ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil

ROOT: Final = Path(__file__).parents[2]
THREADS: Final = 200
"""As many as an engine may have: each that ends hands its children to the next one."""
ENGINE: Final = f"""
import subprocess, sys, threading, time
for _ in range({THREADS}):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
started = []
def start():
    started.append(subprocess.Popen(sys.argv[1:]))
starter = threading.Thread(target=start)
starter.start()
starter.join()
print(started[0].pid, flush=True)
time.sleep(600)
"""
PLUGIN: Final = """
import threading
from standins.serve import watch_parent
stop = threading.Event()
watch_parent(stop)
print("up", flush=True)
stop.wait()
"""
END_DEADLINE_S: Final = 20.0


def test_a_plugin_outlives_the_thread_that_started_it_and_ends_with_a_killed_engine() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENGINE, sys.executable, "-c", PLUGIN],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as engine:
        assert engine.stdout is not None
        said = {engine.stdout.readline().strip() for _ in range(2)}
        plugin = psutil.Process(int(next(word for word in said if word != "up")))
        assert "up" in said
        assert plugin.status() != psutil.STATUS_ZOMBIE
        engine.kill()
        plugin.wait(END_DEADLINE_S)
    assert not plugin.is_running()
