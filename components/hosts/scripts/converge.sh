# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, stack, changed, ... are set by input.sh; service.sh reads deferring
# Brings one host to the state on stdin: read, compare, change only the difference, read again.
# Safe to run twice and after half a run. stdout: one line of JSON evidence.

refuse_other_stack() { # it would record what the other one set, and nobody would put that back
  for other_stack in /var/lib/railyard/*/baseline; do
    other_stack=${other_stack%/baseline}
    [ ! -e "$other_stack/baseline" ] || [ "$other_stack" = "$state_dir" ] ||
      fail "stack ${other_stack##*/} has settings on this host, and one host can be of one stack only: take" \
        'the host out of its file and update it (or destroy it), then run again. Where the stack was only' \
        "renamed, run on the host: mv $other_stack $state_dir; sed -i" \
        "'s/^# railyard ${other_stack##*/}:/# railyard $stack:/' /etc/hosts" # else that part would be nobody's
  done
}

refuse_other_name() { # a swapped address would give this machine the settings of another one
  own_name=${keep:-}
  own_name=${own_name%-host}
  marked=''
  [ ! -e "$state_dir/name" ] || read -r marked <"$state_dir/name"
  [ -z "$own_name" ] || [ -z "$marked" ] || [ "$marked" = "$own_name" ] || [ "$marked" = "${renamed_from:-}" ] ||
    fail "this machine is $marked of stack $stack, and not $own_name: correct the ssh of $own_name in the file, or" \
      "run railyard rename host $marked $own_name. Where another machine has the name $marked now, run on this one:" \
      "rm $state_dir/name"
}

mark_name() { # of the device whose settings are recorded here
  [ -n "$own_name" ] && [ "$marked" != "$own_name" ] && [ -e "$state_dir/baseline" ] || return 0
  printf '%s\n' "$own_name" >"$state_dir/name" || fail "cannot write $state_dir/name"
}

refuse_early() { # what must not be recorded as a previous value, since it has to go first
  refuse_pci
  refuse_docker
  refuse_release
  refuse_managed
  asks_for address || return 0
  grep -E '^nic\.[^=]*\.address=' "$work/desired" >"$work/addresses"
  while IFS= read -r line; do
    key=${line%%=*}
    ! value_of "$key" "$state_dir/baseline" >/dev/null 2>&1 || continue
    split_nic "$key"
    find_netdev "$pci"
    refuse_address "$pci" "$netdev" "${line#*=}" "$(value_of "$key" "$work/actual")"
  done <"$work/addresses"
}

recorded_later() { # KEY : of a card that is not here yet, or of a port that becomes one of another kind
  find_part "$1"
  case $1:$key_part in
    nic.*:firmware | nic.*.network_manager:*) is_gone "$1" ;;
    nic.*) is_gone "$1" || link_type_changes "$pci" ;;
    *) return 1 ;;
  esac
}

record_baseline() { # what was here before our first change, once per key
  set -- "$work/actual"
  if [ -e "$state_dir/baseline" ]; then
    lines_without "$state_dir/baseline" "$work/actual" >"$work/unrecorded"
    set -- "$work/unrecorded"
  fi
  while IFS= read -r line; do
    case $line in hosts_block=*) line=hosts_block=absent ;; esac # our part is ours, whichever version wrote it
    recorded_later "${line%%=*}" || printf '%s\n' "$line"
  done <"$1" >"$work/new"
  [ -s "$work/new" ] || return 0
  mkdir -p "$state_dir" || fail "cannot create $state_dir"
  if [ ! -e "$state_dir/hosts.orig" ] && [ -e /etc/hosts ] && ! has_block; then
    cp /etc/hosts "$state_dir/hosts.orig"
  fi
  rm -f "$work/unshown"
  set -- "$work/new"
  [ ! -e "$state_dir/baseline" ] || set -- "$work/new" "$state_dir/baseline"
  sort "$@" >"$state_dir/baseline.new" ||
    fail "cannot write $state_dir/baseline.new"
  sync "$state_dir/baseline.new"
  mv "$state_dir/baseline.new" "$state_dir/baseline"
  sync "$state_dir"
}

apply_all() { # what one change lost of another (a driver its MTU, say) is set in a further round
  : >"$work/written"
  while lines_without "$work/written" "$work/differ" >"$work/due" && [ -s "$work/due" ]; do
    cat "$work/due" >>"$work/written" || fail "cannot write $work/written"
    with_vfs "$work/due" "$work/desired" >"$work/round"
    ranked "$work/round" >"$work/ordered"
    write_all "$work/ordered"
    take_effect
    read_all "$work/desired" "$work/actual" "$work/differ"
  done
}

release_dropped() { # settings that the plan no longer owns go back to what they were, before others are
  # recorded: a new one may be another name of the same thing (huge pages in all, and of each node)
  [ -e "$state_dir/baseline" ] || return 0
  lines_without "$work/desired" "$state_dir/baseline" >"$work/dropped"
  [ -s "$work/dropped" ] || return 0
  while IFS= read -r line; do
    kept "${line%%=*}" "${line#*=}" || printf '%s\n' "$line"
  done <"$work/dropped" >"$work/released"
  read_all "$work/released" "$work/before" "$work/due"
  with_vfs "$work/due" "$work/desired" >"$work/round"
  ranked "$work/round" -r >"$work/ordered"
  restoring=yes
  write_all "$work/ordered"
  restoring=no
  for key in $still_used; do
    note "$key cannot be put back now (it is in use, or another file has it too): the next run tries again"
  done
  for key in $waiting $still_used; do # what waits stays ours until it is put back
    awk -v key="$key=" 'index($0, key) != 1' "$work/dropped" >"$work/ordered"
    cp "$work/ordered" "$work/dropped"
  done
  [ -s "$work/dropped" ] || return 0
  grep -v -x -F -f "$work/dropped" "$state_dir/baseline" >"$state_dir/baseline.new"
  [ $? -le 1 ] || fail "cannot write $state_dir/baseline.new" # 1: no line is left
  mv "$state_dir/baseline.new" "$state_dir/baseline"
  forget_vfs "$work/dropped"
  [ -s "$work/due" ] || return 0
  take_effect
  read_all "$work/desired" "$work/actual" "$work/differ"
}

verify() { # of the last reading, which came after the last change
  while IFS= read -r line <&8; do
    key=${line%%=*}
    waits "$key" || case $key:$reboot_required in
      driver.loaded:true) ;; # the new driver answers after the reboot
      *) fail "$key is '$(value_of "$key" "$work/actual")' after it was set, want '${line#*=}'" ;;
    esac
  done 8<"$work/differ"
}

restart_changed_units() { # a running K3s takes a new limit only at its start
  for unit in $restart_units; do
    if systemctl is-active --quiet "$unit.service"; then
      case $unit in
        k3s | rke2-server) # all of them at once would be no quorum
          note "$unit takes its new locked-memory limit at its next start: systemctl restart $unit," \
            'one server after the other'
          ;;
        *) run systemctl restart "$unit.service" ;;
      esac
    fi
    owe_no_more "restart $unit"
  done
}

note_earlier_names() { # the first line of /etc/hosts that has a name is the one that counts, and ours are its last
  asks_for hosts || return 0
  set -- "$work/desired"
  [ -z "$names" ] || set -- "$tools/$names/tool"
  [ -r "$1" ] || return 0
  find_block_marks
  earlier_names=$(awk -v begin="$block_begin" -v listed="$names" '
    NR == FNR { if (listed != "") ours[tolower($2)] = $1
      else if (index($0, "hosts.") == 1) {
        at = index($0, "="); ours[tolower(substr($0, 7, at - 7))] = substr($0, at + 1) }
      next }
    $0 == begin { exit }
    { sub(/[#\r].*/, "") }
    $1 ~ /:/ { next } # our addresses are IPv4, and are looked up beside these
    { for (i = 2; i <= NF; i++) if ((name = tolower($i)) in ours) {
        if ($1 != ours[name] && ++count <= 3)
          list = list (count > 1 ? ", " : "") name " is " $1 " (line " FNR ")"
        delete ours[name] } }
    END { if (count) print list (count > 3 ? " and " count - 3 " more" : "") }' "$1" /etc/hosts)
  [ -z "$earlier_names" ] ||
    note "in /etc/hosts the first line counts, $earlier_names: take these names out"
}

report_waiting() { # what is left to the step that takes this host out of service
  [ -n "$waiting" ] || return 0
  printf ',"waiting":["%s"]' "$(printf '%s\n' "$waiting" | sed 's/ /","/g')"
}

find_report() { # how many settings neither changed nor wait, and the keys that changed, those of all cards as one
  # shellcheck disable=SC2086 # keys have no blanks
  { printf '%s\n' $changed && printf '%s=waits\n' $waiting; } >"$work/moved"
  awk -F = '
    function split_nic(key) {
      setting = pci = key
      if (!sub(/^nic\./, "", pci)) return 0
      sub(/.*\./, "", setting)
      pci = substr(pci, 1, length(pci) - length(setting) - 1)
      return 1
    }
    FILENAME == ARGV[1] { moved[$1]; if ($1 != "" && NF == 1) keys[++changed] = $1; next }
    !($1 in moved) { count++ }
    split_nic($1) && !(pci in ours) { ours[pci]; cards++ }
    END {
      for (i = 1; i <= changed; i++) if (split_nic(keys[i]) && pci in ours) on[setting]++
      for (i = 1; i <= changed; i++) {
        key = keys[i]
        if (cards > 1 && split_nic(key) && pci in ours && on[setting] == cards) key = "nic.*." setting
        if (!(key in said)) list = list (list == "" ? "" : ",") "\"" key "\""
        said[key]
      }
      print "[" list "],\"unchanged\":" count + 0 # no printf: mawk takes 8 KiB there
    }' "$work/moved" "$work/desired" >"$work/settings"
  find_line "$work/settings"
}

report() {
  report_firmware >"$work/report"
  case $firmware_needs in '' | nothing) ;; *) reboot_required=true ;; esac
  note_rivals
  note_earlier_names
  find_report
  printf '{"changed":%s,"reboot_required":%s' "$value" "$reboot_required"
  find_line "$work/report"
  printf '%s' "$value"
  find_line /etc/machine-id
  printf ',"machine_id":"%s"' "$(json_text "$value")"
  report_driver
  report_waiting
  printf '%s}\n' "${notes:+,\"notes\":[$notes]}"
}

take_input
take_lock
refuse_other_stack
refuse_other_name
take_up_due
read_all "$work/desired" "$work/actual" "$work/differ"
refuse_early
deferring=yes
release_dropped
record_baseline
mark_name
record_acs
apply_all
note_released "$work/dropped"
restart_changed_units
mark_vf_mtus
note_pending
verify
report
