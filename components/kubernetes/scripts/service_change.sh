# shellcheck shell=sh
# shellcheck disable=SC2154 # work, changed, FOLDER, ... are set by service.sh
# How a service of the balancer is brought to the state on stdin: its program tries a configuration
# itself before it is put in place, and a running service reloads it.

install_package() { # what to install by hand where there is no apt
  command -v "$NAME" >/dev/null && return 0
  command -v apt-get >/dev/null ||
    fail "$NAME is not installed and there is no apt-get: install $1, then run again"
  export DEBIAN_FRONTEND=noninteractive
  echo absent >"$state_dir/$NAME-package" || fail "cannot write in $state_dir"
  run apt-get -o DPkg::Lock::Timeout=600 update
  run apt-get -o DPkg::Lock::Timeout=600 -y install "$NAME"
  systemctl disable --now "$NAME.service" >/dev/null 2>&1 # the package's own, which serves nothing
  changed="$changed $NAME-package"
}

put_file() { # DRAFT FILE MODE : only where it differs
  cmp -s "$1" "$2" && return 0
  run cp "$1" "$2.new"
  run chmod "$3" "$2.new"
  run mv "$2.new" "$2"
  changed="$changed ${2##*/}"
}

put_files() { # FILE... : from $work/draft; what it has not is removed
  (umask 022 && mkdir -p "$FOLDER") || fail "cannot make $FOLDER"
  for file in "$@"; do
    if [ -e "$work/draft/$file" ]; then
      put_file "$work/draft/$file" "$FOLDER/$file" 0644
    elif [ -e "$FOLDER/$file" ]; then
      rm -f "$FOLDER/$file"
      changed="$changed $file"
    fi
  done
  lines_of unit >"$work/unit"
  put_file "$work/unit" "$UNIT_FILE" 0644
}

claim() { # the unit and the folder are this stack's, or not there yet
  name_stack
  take_lock
  [ ! -e "$state_dir/$NAME" ] || return 0
  [ ! -e "$UNIT_FILE" ] && [ ! -e "$FOLDER" ] ||
    fail "$UNIT_FILE or $FOLDER is here, and this stack did not make it: is another stack's balancer" \
      'on this host? Remove that first'
  run mkdir -p "$state_dir"
  echo ours >"$state_dir/$NAME" || fail "cannot write in $state_dir"
  sync "$state_dir/$NAME"
}

start_service() {
  case $changed in *"$UNIT"*) run systemctl daemon-reload ;; esac
  enable_unit "$UNIT"
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
}

