# shellcheck shell=sh
# Prints the administrator's kubeconfig of a K3s server. Read-only. POSIX sh, as root.
file=/etc/rancher/k3s/k3s.yaml
[ -r "$file" ] || {
  echo "railyard: $file does not exist: K3s has not started on this host" >&2
  exit 1
}
cat "$file"
