# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, pci, ... are set by input.sh
# What the RDMA devices of a PF and of its VFs mark: RDMA-CM's mode and ToS, the traffic class of raw verbs; and the
# RoCE v2 GID of a card's address.

find_rdma_paths() { # PCI SETTING : $rdma_paths, its RDMA device, or those of its VFs for vf_*; no name has a blank
  rdma_paths=''
  rdma_folder=/sys/bus/pci/devices/$1
  case $2 in vf_*) set -- "$rdma_folder"/virtfn*/infiniband/* ;; *) set -- "$rdma_folder"/infiniband/* ;; esac
  for rdma_path; do [ ! -e "$rdma_path" ] || rdma_paths="$rdma_paths $rdma_path"; done
}

add_value() { # TEXT : to $value, which has each once, by commas
  case ,$value, in *",$1,"*) ;; *) value=$value${value:+,}$1 ;; esac
}

find_traffic_class() { # PCI SETTING : the file is there with NVIDIA's driver alone
  find_rdma_paths "$1" "$2"
  for rdma_path in $rdma_paths; do
    [ -e "$rdma_path/tc/1/traffic_class" ] || continue
    tclass=off
    while IFS= read -r tclass_line || [ -n "$tclass_line" ]; do
      case $tclass_line in 'Global tclass='?*) tclass=${tclass_line#*=} ;; esac
    done <"$rdma_path/tc/1/traffic_class"
    add_value "$tclass"
  done
}

write_marks() { # PCI SETTING VALUE : of its RDMA device, or of those of its VFs; of several values none is put back
  case $3 in *,*) return ;; esac
  find_rdma_paths "$1" "$2"
  case $2 in *traffic_class) write_traffic_class "$3" ;; *) write_rdma_cm "$1" "$2" "$3" ;; esac
}

write_traffic_class() { # 0-255|off
  for rdma_path in $rdma_paths; do
    tclass_file=$rdma_path/tc/1/traffic_class
    [ -e "$tclass_file" ] ||
      fail "$tclass_file does not exist: the traffic class of raw verbs is set through NVIDIA's driver" \
        '(DOCA-OFED or MLNX_OFED); with the inbox driver each job marks its packets (NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS)'
    case $1 in off) put tclass=-1 "$tclass_file" ;; *) put "$1" "$tclass_file" ;; esac
  done
}

find_gid() { # PCI NETDEV : whether its addresses have RoCE v2 GIDs, at whatever index
  find_first "/sys/bus/pci/devices/$1/infiniband"
  gid_port=/sys/bus/pci/devices/$1/infiniband/$value/ports/1
  find_addresses "$2"
  gid_left=$value,
  while [ -n "$gid_left" ]; do
    has_gid "${gid_left%%,*}" || { value=absent && return; }
    gid_left=${gid_left#*,}
  done
  value='RoCE v2'
}

has_gid() { # ADDRESS/LENGTH : at $gid_port
  IFS=./
  # shellcheck disable=SC2086 # its numbers
  set -- $1
  unset IFS
  [ $# = 5 ] || return 1
  gid=$(printf 'ffff:%02x%02x:%02x%02x' "$1" "$2" "$3" "$4")
  grep -s -l "$gid" "$gid_port"/gids/* >"$work/gids"
  while IFS= read -r gid_file; do
    find_line "$gid_port/gid_attrs/types/${gid_file##*/}"
    [ "$value" != 'RoCE v2' ] || return 0
  done <"$work/gids"
  return 1
}

wait_for_gid() { # PCI NETDEV : the kernel makes it when the address is there and the link is up
  waited_s=0
  while find_gid "$1" "$2" && [ "$value" = absent ]; do
    [ "$waited_s" -lt 10 ] ||
      fail "$2 has $(printed find_addresses "$2"), and no RoCE v2 GID for it after 10 s: is its link up (ip link" \
        'show), and is RoCE on (devlink dev param show, enable_roce)?'
    sleep 1
    waited_s=$((waited_s + 1))
  done
}

find_rdma_cm() { # PCI SETTING : all of a card, or all of its VFs, in one go, since folders are made and removed for it
  cm_file=$work/qos.cm.${2%%_*}.$1
  if [ ! -s "$cm_file" ]; then
    find_rdma_paths "$1" "$2"
    rdma_cm show_rdma_cm >"$cm_file"
  fi
  value=''
  while IFS= read -r cm_line; do
    case $cm_line in "${2#vf_}="?*) add_value "${cm_line#*=}" ;; esac
  done <"$cm_file"
}

show_rdma_cm() {
  for rdma_path in $rdma_paths; do
    for cm_setting in roce_mode roce_tos; do
      find_line "/sys/kernel/config/rdma_cm/${rdma_path##*/}/ports/1/default_$cm_setting"
      printf '%s=%s\n' "$cm_setting" "$value"
    done
  done
}

rdma_cm() { # COMMAND WORDS... : while the devices of $rdma_paths have folders in configfs; values stay without those
  cm_made=''
  for rdma_path in $rdma_paths; do
    cm_folder=/sys/kernel/config/rdma_cm/${rdma_path##*/}
    [ -d "$cm_folder" ] || cm_made="$cm_made $cm_folder"
  done
  # shellcheck disable=SC2086 # one word for each folder
  [ -z "$cm_made" ] || mkdir $cm_made 2>/dev/null
  cm_status=0
  "$@" 2>&1 || cm_status=1
  # shellcheck disable=SC2086 # as above
  [ -z "$cm_made" ] || rmdir $cm_made 2>/dev/null
  return "$cm_status"
}

put_wanted() { # SETTING VALUE
  for rdma_path in $rdma_paths; do
    cm_folder=/sys/kernel/config/rdma_cm/${rdma_path##*/}
    { printf '%s\n' "$2" >"$cm_folder/ports/1/default_$1"; } 2>/dev/null ||
      put_once "$2" "$cm_folder/ports/1/default_$1" || { printf '%s\n' "$put_output" && return 1; }
  done
}

write_rdma_cm() { # PCI roce_mode|roce_tos|vf_roce_tos VALUE
  rm -f "$work/qos.cm.${2%%_*}.$1"
  rdma_cm put_wanted "${2#vf_}" "$3" >"$work/rdma_cm" ||
    fail "cannot set $2 of $1: $(cat "$work/rdma_cm") (module rdma_cm and configfs are needed)"
}
