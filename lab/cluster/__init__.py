"""The lab's Kubernetes: real control plane, simulated nodes and pods."""
