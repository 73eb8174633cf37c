"""The Pulumi program: load, check, plan, observe, compose."""

from stacks import run

run()
