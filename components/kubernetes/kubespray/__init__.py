"""kubespray: what it is told, which of its playbooks run when, and the process that runs them."""
