# shellcheck shell=sh
# shellcheck disable=SC2154 # REGISTRY_PASSWORD is set by registry.sh
# Removes the registry's password. POSIX sh, as root.
rm -f "$REGISTRY_PASSWORD" "$REGISTRY_PASSWORD.new" "$REGISTRY_PASSWORD.sha256"
rmdir /etc/rancher/k3s /etc/rancher 2>/dev/null
printf '{"changed":["registry.password"]}\n'
