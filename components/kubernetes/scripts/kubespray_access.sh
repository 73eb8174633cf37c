# shellcheck shell=sh
# Prints the administrator's kubeconfig of a server that kubeadm made. Read-only.
print_file /etc/kubernetes/admin.conf 'kubespray has not set up this host'
