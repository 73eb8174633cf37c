# shellcheck shell=sh
# Prints the cluster's CA certificate, which is public, from a K3s server's disk. Read-only.
print_file /var/lib/rancher/k3s/server/tls/server-ca.crt 'K3s has not started on this host'
