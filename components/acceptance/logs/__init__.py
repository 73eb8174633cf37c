"""Logs of NCCL, perftest, MPI and training to typed values: pure."""
