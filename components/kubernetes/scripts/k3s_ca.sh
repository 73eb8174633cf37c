# shellcheck shell=sh
# Prints the cluster's CA certificate, which is public, from a K3s server's disk. Read-only. POSIX
# sh, as root.
file=/var/lib/rancher/k3s/server/tls/server-ca.crt
[ -r "$file" ] || {
  echo "railyard: $file does not exist: K3s has not started on this host" >&2
  exit 1
}
cat "$file"
