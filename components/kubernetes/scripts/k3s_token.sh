# shellcheck shell=sh
# Writes the cluster token that comes on stdin to a file that only root reads. POSIX sh, as root.
set -u
umask 077
file=/etc/rancher/k3s/token

IFS= read -r token || [ -n "$token" ]
case $token in
  '' | *[!A-Za-z0-9:._-]*)
    echo 'railyard: the K3s token is empty or holds a sign outside A-Z a-z 0-9 : . _ -' >&2
    exit 1
    ;;
esac
ca=/var/lib/rancher/k3s/server/tls/server-ca.crt
case $token in
  K10*::*)
    named=${token#K10}
    named=${named%%::*}
    if [ -e "$ca" ] && [ "$named" != "$(sha256sum "$ca" | cut -d ' ' -f 1)" ]; then
      echo "railyard: the token is of a cluster whose CA has the hash $named, and the CA on this" >&2
      echo "  server has $(sha256sum "$ca" | cut -d ' ' -f 1): take this cluster's token (k3s token)" >&2
      exit 1
    fi
    ;;
esac
if [ -e "$file" ] && [ "$(cat "$file")" = "$token" ]; then
  printf '{"changed":[],"unchanged":1,"reboot_required":false}\n'
  exit 0
fi
if [ -e "$file" ] && [ -e /var/lib/rancher/k3s/server/token ]; then
  echo 'railyard: this server runs with another token, and its data is encrypted with it: rotate' >&2
  echo '  it there first (k3s token rotate), then put the new one into the configuration' >&2
  exit 1
fi
(umask 022 && mkdir -p /etc/rancher/k3s) || exit 1
printf '%s\n' "$token" >"$file.new" && sync "$file.new" && mv "$file.new" "$file" || exit 1
printf '{"changed":["k3s.token"],"unchanged":0,"reboot_required":false}\n'
