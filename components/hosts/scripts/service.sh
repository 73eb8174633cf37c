# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, state_dir, ... are set by input.sh and the callers
# What a change would take from the jobs on this host, what therefore waits until the host is out of
# service, and what waits for a boot. All of it is read from the host itself.

disrupt='wait' # `now` on stdin: the host is out of service, so nothing has to wait
action=''
waiting='' # keys that this run leaves alone, whatever for
put_off='' # those of them that wait until the host is out of service
deferring=no # converge alone puts settings off; undo and the boot unit do not

in_service() { # pods or containers may have the cards open
  if [ ! -s "$work/in_service" ]; then
    find_first /var/lib/kubelet/pods
    if [ "$value" != absent ] || runs_pods || runs_containers; then
      echo yes >"$work/in_service"
    else
      echo no >"$work/in_service"
    fi
  fi
  find_line "$work/in_service"
  [ "$value" = yes ]
}

runs_containers() { command -v docker >/dev/null && [ -n "$(docker ps -q 2>/dev/null)" ]; }

runs_pods() { # one of the units that do
  value=$(systemctl is-active k3s.service k3s-agent.service rke2-server.service rke2-agent.service \
    kubelet.service 2>/dev/null)
  case "$newline$value$newline" in *"${newline}active$newline"*) ;; *) return 1 ;; esac
}

has_vfs() { # nic.<pci>.<setting>
  split_nic "$1"
  find_line "/sys/bus/pci/devices/$pci/sriov_numvfs" 0
  [ "$value" != 0 ]
}

lost_all_vfs() { # nic.<pci>.<setting> : they are all in pods
  split_nic "$1"
  [ -e "/sys/bus/pci/devices/$pci/virtfn0" ] && count_vfs_here "/sys/bus/pci/devices/$pci" && [ "$vf_count" = 0 ]
}

takes_link() { :; } # nic.<pci>.<setting> : mlx5 takes the link down and up when it is set

holds_guid() { # vf.<pci>.<number>.guid : its driver is unbound for another one; 0 is what a new one has
  value=''
  split_vf "$1"
  [ -e "/sys/bus/pci/devices/$pci/virtfn$vf/driver" ] && find_vf "$1"
  case $value in *[1-9a-f]*) ;; *) return 1 ;; esac
}

holds_macs() { # nic.<pci>.vf_mac : drivers are unbound from VFs that pods have, or may have had with another MAC
  split_nic "$1"
  count_vfs_used "/sys/bus/pci/devices/$pci"
  [ "$vf_count" = 0 ] || return 0
  find_vf_macs "$pci"
  case $value in own | *??:??*) ;; *) return 1 ;; esac
}

waits() { # KEY : it was put off in this run
  case " $waiting " in *" $1 "*) ;; *) return 1 ;; esac
}

must_wait() { # KEY VALUE : true, and remembered, when it is to be set after a boot or out of service
  [ "$deferring" = yes ] || return 1
  if waits_for_boot "$1" "$2"; then
    waiting="$waiting${waiting:+ }$1"
    return 0
  fi
  [ "$disrupt" != now ] && interrupts "$1" "$2" && in_service || return 1
  waiting="$waiting${waiting:+ }$1"
  put_off="$put_off $1"
}

owe() { # ACTION : what makes a file act is due from before it is written, also for the next run
  [ -n "${state_dir:-}" ] || return 0 # at boot nothing needs to be told
  ! is_due "$1" || return 0
  echo "$1" >>"$state_dir/due" || fail "cannot write $state_dir/due"
}

is_due() { # ACTION ; $still_due becomes the others
  still_due=''
  due_here=no
  [ -e "$state_dir/due" ] || return 1
  while IFS= read -r due_line || [ -n "$due_line" ]; do
    if [ "$due_line" = "$1" ]; then due_here=yes; else still_due=$still_due$due_line$newline; fi
  done <"$state_dir/due"
  [ "$due_here" = yes ]
}

owe_no_more() { # ACTION
  if [ -z "${state_dir:-}" ] || ! is_due "$1"; then return 0; fi
  if [ -n "$still_due" ]; then printf '%s' "$still_due" >"$state_dir/due"; else rm "$state_dir/due"; fi
}

take_up_due() { # what an earlier run wrote and did not live to make act
  [ -s "$state_dir/due" ] || return 0
  cp "$state_dir/due" "$work/due_before"
  note "an earlier run ended before: $(paste -s -d , "$work/due_before" | sed 's/,/, /g'); that is done now"
  while IFS= read -r due_action <&7; do
    case $due_action in
      daemon-reload) reload_units=yes ;;
      'restart '*) restart_units="$restart_units ${due_action#restart }" ;;
      'reload docker') reload_docker=yes ;;
      update-initramfs) update_initramfs ;;
      update-grub) update_grub ;;
    esac
  done 7<"$work/due_before"
  take_effect
}

take_effect() { # what is read from files only when it is told to
  if [ "$reload_units" = yes ]; then
    run systemctl daemon-reload
    reload_units=no
    owe_no_more daemon-reload
  fi
  apply_docker_config
}

boot_id() { cat /proc/sys/kernel/random/boot_id; }

note_pending() { # what this run leaves to a drain or to a boot; it outlives the run, not the boot
  pending_file=$state_dir/reboot-pending
  case $reboot_required:$put_off in false:) [ -e "$pending_file" ] || return 0 ;; esac
  { printf 'boot=%s\n' "$(boot_id)"
    if [ "$reboot_required" = true ]; then
      echo 'reboot=an update changed what only a boot loads'
    elif [ "$(value_of boot "$pending_file" 2>/dev/null)" = "$(boot_id)" ]; then
      grep '^reboot=' "$pending_file"
    fi
    for key in $put_off; do printf 'waiting=%s\n' "$key"; done
  } >"$work/pending"
  if [ "$(wc -l <"$work/pending")" -gt 1 ]; then
    mkdir -p "$state_dir" || fail "cannot create $state_dir"
    cp "$work/pending" "$pending_file" || fail "cannot write $pending_file"
  else
    rm -f "$pending_file"
  fi
}

pending_settings() { # what runs otherwise than the next boot will: firmware, the kernel's command line
  {
    if asks_for firmware || asks_for boot; then grep -E "$next_boot" "$work/desired"; fi
    released_firmware
  } >"$work/next_boot"
  while IFS= read -r line <&7; do
    key=${line%%=*}
    loads_at_start "$key" || continue
    find_value "$key"
    next=$value
    find_value "${key}_current"
    now=$value
    case $next:$now in
      unsupported:* | unreadable:* | absent:* | unknown:* | per_pf:*) ;;
      *:unsupported | *:unreadable | *:absent | *:unknown | *:per_pf) ;;
      "$now:$now") ;;
      *) printf 'pending.%s.%s=%s -> %s\n' "$(loaded_by "$key")" "$key" "$now" "$next" ;;
    esac
  done 7<"$work/next_boot"
}

loaded_by() { # KEY : `power` where a warm reboot does not load what the card was told
  case $1 in
    nic.*)
      split_nic "$1"
      find_value "nic.$pci.fw_needs"
      case $value in power_cycle | mlxfwreset) echo power && return ;; esac
      ;;
  esac
  echo boot
}

pending_driver() { # the modules that run against those that are installed
  asks_for driver && grep -E -q '^driver\.kind=(doca|mlnx)_ofed$' "$work/desired" || return 0
  [ "$(read_driver loaded)" != other ] || printf 'pending.boot.driver.modules=%s -> %s\n' \
    "$(cat /sys/module/mlx5_core/srcversion)" "$(modinfo -F srcversion mlx5_core 2>/dev/null || echo none)"
}

pending_marks() { # what converge left, and a run that was not finished; of any stack where none is told
  for folder in /var/lib/railyard/*; do
    [ -z "$stack" ] || [ "$folder" = "/var/lib/railyard/$stack" ] || continue
    if [ -e "$folder/reboot-pending" ] && [ "$(value_of boot "$folder/reboot-pending")" = "$(boot_id)" ]; then
      sed -n -e 's/^reboot=/pending.boot.update=/p' \
        -e 's/^waiting=\(.*\)/pending.drain.\1=waits/p' "$folder/reboot-pending"
    fi
    [ ! -e "$folder/reboot" ] || printf 'pending.begun=%s\n' "$(value_of boot "$folder/reboot")"
  done
}

pending() { # key=value lines: pending.boot.<what>, .power.<key>, .drain.<key>, .begun, .in_service
  pending_settings
  pending_driver
  pending_marks
  if in_service; then echo pending.in_service=yes; else echo pending.in_service=no; fi
}
