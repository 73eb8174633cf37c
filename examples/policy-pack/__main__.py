"""A policy pack for stacks with a Railyard `Site`: the engine runs this file."""

import policies  # noqa: F401 - its import registers the pack
