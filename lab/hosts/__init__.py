"""The lab's Linux hosts: isolated file trees with emulated cards, systemd and vendor tools."""
