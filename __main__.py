"""The Pulumi program: load, check, plan, observe, compose."""

from railyard_rdma import run

run()
