"""kubespray: its variables, which of its playbooks run when, and the process that runs them."""
