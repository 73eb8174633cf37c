"""The problem type, as the rules and those who print them use it."""

from __future__ import annotations

from components.core.problem import Lines, Place, Problem, Severity, SpecPath, render_path

__all__ = ["Lines", "Place", "Problem", "Severity", "SpecPath", "render_path"]
