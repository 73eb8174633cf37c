# shellcheck shell=sh
# Prints the administrator's kubeconfig of a K3s server. Read-only.
print_file /etc/rancher/k3s/k3s.yaml 'K3s has not started on this host'
