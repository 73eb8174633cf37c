# shellcheck shell=sh
# Removes a token file: `token`, or with kind=agent `agent-token`. POSIX sh, as root.
set -u
kind=${kind:-}
file=/etc/rancher/k3s/${kind:+$kind-}token
rm -f "$file" "$file.new" "$file.sha256"
rmdir /etc/rancher/k3s /etc/rancher 2>/dev/null
printf '{"changed":["k3s.%s"]}\n' "${file##*/}"
