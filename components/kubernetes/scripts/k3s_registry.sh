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
digest=$(printf '%s\n' "$secret" | sha256sum)
if [ -e "$REGISTRY_PASSWORD" ] && [ "$(cat "$REGISTRY_PASSWORD")" = "$secret" ] &&
  [ "$(cat "$REGISTRY_PASSWORD.sha256" 2>/dev/null)" = "$digest" ] &&
  [ "$(stat -c '%a/%u' "$REGISTRY_PASSWORD")" = "600/$(id -u)" ]; then
  printf '{"changed":[],"unchanged":1,"reboot_required":false}\n'
  exit 0
fi
(umask 022 && mkdir -p "${REGISTRY_PASSWORD%/*}") || exit 1
used=/etc/rancher/k3s/registries.yaml
marked=''
if [ -e "$used" ] && [ -e "$REGISTRY_PASSWORD" ]; then marked=$(without_password <"$used"); fi
rm -f "$REGISTRY_PASSWORD.new" # umask is for a file that is made
printf '%s\n' "$digest" >"$REGISTRY_PASSWORD.sha256" || exit 1
printf '%s\n' "$secret" >"$REGISTRY_PASSWORD.new" && sync "$REGISTRY_PASSWORD.new" &&
  mv "$REGISTRY_PASSWORD.new" "$REGISTRY_PASSWORD" || exit 1
case $marked in *"$REGISTRY_MARK"*) ;; *) marked='' ;; esac # what was edited by hand is the install's to mend
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
