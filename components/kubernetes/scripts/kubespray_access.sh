# shellcheck shell=sh
# Prints the administrator's kubeconfig of a server that kubeadm made. Read-only. POSIX sh, as root.
file=/etc/kubernetes/admin.conf
[ -r "$file" ] || {
  echo "railyard: $file does not exist: kubespray has not set up this host" >&2
  exit 1
}
cat "$file"
