"""What Ansible and pyinfra are told to bring the benchmark's hosts to the same state."""
