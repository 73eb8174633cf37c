"""The stand-in of `pulumi-resource-command`: the same semantics where the real one is not had."""
