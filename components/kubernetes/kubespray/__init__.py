"""kubespray: its variables, the choice of its playbooks, and the process that runs them."""
