# shellcheck shell=sh
# shellcheck disable=SC2154 # REGISTRY_PASSWORD is set by registry.sh
# Writes the registry's password that comes on stdin to a file that only root reads; where K3s runs
# with the one before, it gets the new one. POSIX sh, as root.
set -u
umask 077

IFS= read -r secret || [ -n "$secret" ]
case $secret in
  '' | *[![:print:]]*)
    echo 'railyard: the password of the registry is empty or holds a sign that is not printable' >&2
    exit 1
    ;;
esac
if [ -e "$REGISTRY_PASSWORD" ] && [ "$(cat "$REGISTRY_PASSWORD")" = "$secret" ]; then
  printf '{"changed":[],"unchanged":1,"reboot_required":false}\n'
  exit 0
fi
(umask 022 && mkdir -p "${REGISTRY_PASSWORD%/*}") || exit 1
used=/etc/rancher/k3s/registries.yaml
marked=''
if [ -e "$used" ] && [ -e "$REGISTRY_PASSWORD" ]; then marked=$(without_password <"$used"); fi
printf '%s\n' "$secret" >"$REGISTRY_PASSWORD.new" && sync "$REGISTRY_PASSWORD.new" &&
  mv "$REGISTRY_PASSWORD.new" "$REGISTRY_PASSWORD" || exit 1
if [ -n "$marked" ]; then
  printf '%s\n' "$marked" | with_password >"$used.new" && mv "$used.new" "$used" || exit 1
  for unit in k3s k3s-agent; do
    systemctl is-active --quiet "$unit.service" || continue
    systemctl restart "$unit.service" || {
      echo "railyard: $unit.service does not start with the registry's new password" >&2
      exit 1
    }
  done
fi
printf '{"changed":["registry.password"],"unchanged":0,"reboot_required":false}\n'
