# shellcheck shell=sh
# Read-only look at a K3s node: its role, its two files line by line, its binary and its service.
# POSIX sh, as root. stdout: key=value lines in the form of the install step's stdin.
set -u
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

file_lines() { # NAME
  file=/etc/rancher/k3s/$1
  [ -e "$file" ] || file=/dev/null
  without_password <"$file" |
    awk -v name="$1" '{ printf "%s.%02d=%s\n", name, NR, $0 } END { printf "%s.lines=%d\n", name, NR }'
}

secret_state() { # NAME : kept, or what is wrong with the file, and never a word of it
  file=/etc/rancher/k3s/$1
  [ -e "$file" ] || return 0
  if [ ! -s "$file" ]; then
    printf 'k3s-secrets.%s=empty\n' "$1"
  elif [ "$(stat -c '%a/%u' "$file")" != "600/$(id -u)" ]; then
    printf 'k3s-secrets.%s=mode and owner %s\n' "$1" "$(stat -c '%a/%u' "$file")"
  elif [ -e "$file.sha256" ] && [ "$(sha256sum <"$file")" != "$(cat "$file.sha256")" ]; then
    printf 'k3s-secrets.%s=another value\n' "$1"
  else
    printf 'k3s-secrets.%s=kept\n' "$1"
  fi
}

service_state() { # UNIT : enabled/active, in systemd's own words
  printf '%s/%s\n' "$(systemctl is-enabled "$1" 2>/dev/null | head -n 1)" \
    "$(systemctl is-active "$1" 2>/dev/null | head -n 1)"
}

read_api() { # ok, or the first check that fails, or why there is no answer
  api_says=$(timeout 20 k3s kubectl --kubeconfig /etc/rancher/k3s/k3s.yaml --request-timeout=15s \
    get --raw /readyz 2>&1)
  case $api_says in
    ok) echo ok ;;
    *'[-]'*) printf '%s\n' "$api_says" | sed -n 's/.*\[-\]\([a-z/-]* failed\).*/\1/p' | head -n 1 ;;
    *) printf '%s\n' "${api_says:-no answer within 20 s}" | tail -n 1 ;;
  esac
}

printf 'sudo=ok\n' # this runs as root, so sudo let us
for unit in k3s k3s-agent; do
  [ -e "/etc/systemd/system/$unit.service" ] || continue
  case $unit in
    k3s)
      echo role=server
      if systemctl is-active --quiet k3s.service; then printf 'k3s.api=%s\n' "$(read_api)"; fi
      ;;
    k3s-agent) echo role=agent ;;
  esac
  printf '%s.service=%s\n' "$unit" "$(service_state "$unit.service")"
done
for name in token agent-token registry-password; do secret_state "$name"; done
file_lines config.yaml
file_lines registries.yaml
file_lines proxy.env
[ ! -e /etc/rancher/k3s/registry-ca.crt ] || file_lines registry-ca.crt
[ ! -e /usr/local/bin/k3s ] ||
  printf 'binary_sha256=%s\n' "$(sha256sum /usr/local/bin/k3s | cut -d ' ' -f 1)"
