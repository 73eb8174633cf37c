"""The component package `railyard`, for Pulumi programs in every language."""

from railyard_rdma.command import component_package

component_package()
