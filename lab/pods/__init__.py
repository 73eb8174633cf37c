"""Real nodes without virtual machines: kubelet, containerd, runc and CNI plugins in namespaces."""
