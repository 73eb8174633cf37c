# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # the texts that follow use the variables; work is set by linux.sh
# What the two services of a balancer have in common: each is a unit and a folder that are wholly
# ours, beside whatever the host runs of that program itself. The text of the service follows, and
# names its settings. stdin: key=value lines; `NAME.NN` are the lines of a file. POSIX sh, as root.
begin_work

use_service() { # NAME
  NAME=$1
  FOLDER=/etc/railyard/$NAME
  UNIT=railyard-$NAME.service
  UNIT_FILE=/etc/systemd/system/$UNIT
}

numbered() { # NAME FILE : a file in the form that stdin has it in
  [ ! -e "$2" ] ||
    awk -v name="$1" '{ printf "%s.%02d=%s\n", name, NR, $0 } END { print name ".lines=" NR }' "$2"
}

report_service() { # PARAMETER|... : lines of stdin that are no settings
  grep -v -E "^(stack|repair|$1)=" "$work/input" | sort >"$work/wanted"
  read_state >"$work/actual"
  missing=$(grep -v -x -F -f "$work/actual" "$work/wanted" | head -n 1)
  [ -z "$missing" ] || fail "after it was set, this is not so: $missing"
  print_changed ",\"unchanged\":$(wc -l <"$work/wanted"),\"reboot_required\":false"
}

read_service() {
  numbered unit "$UNIT_FILE"
  echo "service.active=$(systemctl is-active "$UNIT" 2>/dev/null | head -n 1)"
  echo "service.enabled=$(systemctl is-enabled "$UNIT" 2>/dev/null | head -n 1)"
}

cat >"$work/input"
