# shellcheck shell=sh
# shellcheck disable=SC2154 # work, changed, FOLDER, ... are set by haproxy_reading.sh
# Brings the balancer to the state on stdin: a configuration is tried by HAProxy itself before it is
# put in place, and a running HAProxy reloads it without ending connections. stdout: one line of JSON.

install_package() {
  command -v haproxy >/dev/null && return 0
  command -v apt-get >/dev/null ||
    fail 'haproxy is not installed and there is no apt-get: install HAProxy 2.2 or later, then run again'
  export DEBIAN_FRONTEND=noninteractive
  echo absent >"$state_dir/haproxy-package" || fail "cannot write in $state_dir"
  run apt-get -o DPkg::Lock::Timeout=600 update
  run apt-get -o DPkg::Lock::Timeout=600 -y install haproxy
  systemctl disable --now haproxy.service >/dev/null 2>&1 # the package's own, which serves nothing
  changed="$changed haproxy-package"
}

put_file() { # DRAFT FILE MODE : only where it differs
  cmp -s "$1" "$2" && return 0
  run cp "$1" "$2.new"
  run chmod "$3" "$2.new"
  run mv "$2.new" "$2"
  changed="$changed ${2##*/}"
}

draft() { # the folder as it shall be, under $work/draft
  mkdir "$work/draft"
  lines_of haproxy.cfg >"$work/draft/haproxy.cfg"
  wanted ca_base64 | base64 -d >"$work/draft/ca.crt" 2>/dev/null
  grep -q 'BEGIN CERTIFICATE' "$work/draft/ca.crt" ||
    fail 'stdin carries no CA certificate: the step before this one read none from the first server'
  sha256sum "$work/draft/ca.crt" | cut -d ' ' -f 1 >"$work/draft/ca.sha256"
  also=$(wanted also_listen)
  if [ -n "$also" ] && is_local "${also%:*}"; then
    printf 'frontend also\n    bind %s\n    default_backend servers\n' "$also" >"$work/draft/listen.cfg"
  fi
  # The trial must not name the CA in place, which may be another one or none.
  mkdir "$work/trial"
  for file in "$work"/draft/*.cfg; do
    sed "s|$FOLDER/ca.crt|$work/draft/ca.crt|" "$file" >"$work/trial/${file##*/}"
  done
  trial=$(haproxy -c -f "$work/trial" 2>&1) ||
    fail "HAProxy refuses the configuration, and the one in place was left alone: $trial"
}

lines_of unit >"$work/unit"
stack=$(wanted stack)
case $stack in '' | *[!A-Za-z0-9._-]*) fail "bad stack name '$stack'" ;; esac
state_dir=/var/lib/railyard/$stack
take_lock
if [ ! -e "$state_dir/haproxy" ]; then
  [ ! -e "$UNIT_FILE" ] && [ ! -e "$FOLDER" ] ||
    fail "$UNIT_FILE or $FOLDER is here, and this stack did not make it: is another stack's balancer" \
      'on this host? Remove that first'
  run mkdir -p "$state_dir"
  echo ours >"$state_dir/haproxy" || fail "cannot write in $state_dir"
  sync "$state_dir/haproxy"
fi
install_package
draft
(umask 022 && mkdir -p "$FOLDER") || fail "cannot make $FOLDER"
for file in ca.crt ca.sha256 haproxy.cfg listen.cfg; do
  if [ -e "$work/draft/$file" ]; then
    put_file "$work/draft/$file" "$FOLDER/$file" 0644
  elif [ -e "$FOLDER/$file" ]; then
    rm -f "$FOLDER/$file"
    changed="$changed $file"
  fi
done
put_file "$work/unit" "$UNIT_FILE" 0644
case $changed in *"$UNIT"*) run systemctl daemon-reload ;; esac
if [ "$(systemctl is-enabled "$UNIT" 2>/dev/null)" != enabled ]; then
  run systemctl enable "$UNIT"
  changed="$changed enabled"
fi
case $changed:$(systemctl is-active "$UNIT" 2>/dev/null) in
  :active) ;;
  *:active) action=reload ;;
  *) action=restart ;;
esac
case $changed in *"$UNIT"*) action=restart ;; esac
case ${action:-none} in
  # fd 9 must not reach the service: it would hold the lock for ever
  reload) systemctl reload-or-restart "$UNIT" 9>&- >"$work/start.log" 2>&1 ;;
  restart) systemctl restart "$UNIT" 9>&- >"$work/start.log" 2>&1 ;;
esac || fail "$UNIT does not start: $(cat "$work/start.log") $(journalctl -u "$UNIT" -n 20 --no-pager 2>&1)"
[ "${action:-none}" != restart ] || changed="$changed service"
systemctl is-active --quiet "$UNIT" ||
  fail "$UNIT is not active after its start: $(journalctl -u "$UNIT" -n 20 --no-pager 2>&1)"
grep -v -E '^(stack|repair|ca_base64)=' "$work/input" | sort >"$work/wanted"
read_state >"$work/actual"
missing=$(grep -v -x -F -f "$work/actual" "$work/wanted" | head -n 1)
[ -z "$missing" ] || fail "after it was set, this is not so: $missing"
list=''
for key in $changed; do list="$list${list:+,}\"$key\""; done
printf '{"changed":[%s],"unchanged":%d,"reboot_required":false}\n' "$list" "$(wc -l <"$work/wanted")"
