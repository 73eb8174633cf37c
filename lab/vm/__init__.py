"""Two virtual machines with real kernels, on which the scripts of the hosts room are proven."""
