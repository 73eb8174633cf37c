"""The lab's kubespray: playbooks of its own, under kubespray's names, run by the real Ansible."""
