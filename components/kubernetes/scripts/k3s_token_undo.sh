# shellcheck shell=sh
# Removes the token file. POSIX sh, as root.
rm -f /etc/rancher/k3s/token /etc/rancher/k3s/token.new
rmdir /etc/rancher/k3s /etc/rancher 2>/dev/null
printf '{"changed":["k3s.token"]}\n'
