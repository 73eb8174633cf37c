"""UFM, the subnet manager with an API."""
