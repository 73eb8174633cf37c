"""NVIDIA UFM Enterprise: the subnet manager of a fabric, by its REST API."""
