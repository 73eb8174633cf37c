# shellcheck shell=sh
# Writes a token of the cluster that comes on stdin to a file that only root reads: `token`, with which this
# host joins, or with kind=agent a server's `agent-token`, with which agents do. POSIX sh, as root.
set -u
umask 077
kind=${kind:-}
folder=/etc/rancher/k3s
file=$folder/${kind:+$kind-}token

refuse() {
  printf 'railyard: %s\n' "$1" >&2
  [ $# = 1 ] || printf '  %s\n' "$2" >&2
  exit 1
}

password_of() { # TOKEN : without the hash of the CA and the user
  printf '%s\n' "${1##*:}"
}

IFS= read -r token || [ -n "$token" ]
case $token in
  '' | *[!A-Za-z0-9:._-]*)
    refuse 'the K3s token is empty or holds a sign outside A-Z a-z 0-9 : . _ -' ;;
esac
ca=/var/lib/rancher/k3s/server/tls/server-ca.crt
[ -e "$ca" ] || ca=/var/lib/rancher/k3s/agent/server-ca.crt
case $token in
  K10*::*)
    named=${token#K10}
    named=${named%%::*}
    if [ -e "$ca" ] && [ "$named" != "$(sha256sum "$ca" | cut -d ' ' -f 1)" ]; then
      refuse "the token is of a cluster whose CA has the hash $named, and the CA on this" \
        "host has $(sha256sum "$ca" | cut -d ' ' -f 1): take this cluster's token (k3s token)"
    fi
    ;;
esac
if [ "$kind" = agent ]; then
  [ "$(password_of "$token")" != "$(password_of "$(cat $folder/token 2>/dev/null)")" ] ||
    refuse "kubernetes.agent_token is the servers' own token: agents would have it after all." \
      'Give it a value of its own'
fi
digest=$(printf '%s\n' "$token" | sha256sum)
if [ -e "$file" ] && [ "$(cat "$file")" = "$token" ] && [ "$(cat "$file.sha256" 2>/dev/null)" = "$digest" ] &&
  [ "$(stat -c '%a/%u' "$file")" = "600/$(id -u)" ]; then
  printf '{"changed":[],"unchanged":1,"reboot_required":false}\n'
  exit 0
fi
if [ -e "$file" ] && [ "$(cat "$file")" != "$token" ] && [ -e /var/lib/rancher/k3s/server/token ] &&
  [ "$(cat "$file.sha256" 2>/dev/null)" != "$digest" ]; then # else it is ours that was changed by hand
  [ -z "$kind" ] ||
    refuse 'this server runs with another agent token: all servers must have the same one at every' \
      'start, so it is not changed here (docs/explanation/kubernetes.md); put the old one back'
  refuse 'this server runs with another token, and its data is encrypted with it: rotate' \
    'it there first (k3s token rotate), then put the new one into the configuration'
fi
(umask 022 && mkdir -p "$folder") || exit 1
rm -f "$file.new" # umask is for a file that is made
printf '%s\n' "$token" >"$file.new" && sync "$file.new" && mv "$file.new" "$file" || exit 1
printf '%s\n' "$digest" >"$file.sha256" || exit 1
printf '{"changed":["k3s.%s"],"unchanged":0,"reboot_required":false}\n' "${file##*/}"
