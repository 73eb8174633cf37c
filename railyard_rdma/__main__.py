"""`python -m railyard_rdma` is the command `railyard`."""

from railyard_rdma.command import railyard

railyard()
