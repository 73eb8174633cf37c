# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, ... are set by input.sh
# Routes by source address: what a rail's address sends leaves by its rail. `route.<table>.table` is
# the content of one routing table, `route.<table>.rule` the rule of that priority which leads to it.

route_key() { # <table>.rule|table
  case $1 in *.rule | *.table) number "${1%.*}" 1 32000 ;; *) return 1 ;; esac
}

route_value() { # KEY VALUE
  case $1 in
    *.rule) case $2 in 'from '[1-9]*.*.*.*' lookup '[1-9]*) ;; *) return 1 ;; esac ;;
    *.table) case $2 in *' dev '*) ;; *) return 1 ;; esac ;;
  esac
}

read_route() { # <table>.rule|table
  case $1 in
    *.rule)
      [ -e "$work/kernel.rules" ] || ip -4 rule show >"$work/kernel.rules" 2>/dev/null
      awk -v first="${1%.*}:" '$1 == first { $1 = ""; gsub(/ (proto|protocol) [^ ]+/, ""); gsub(/^ +| +$/, ""); print }' \
        "$work/kernel.rules"
      ;;
    *.table)
      [ -e "$work/kernel.routes" ] || ip -4 route show table all >"$work/kernel.routes" 2>/dev/null
      # What the kernel says of a link's state is not ours to put back.
      awk -v table="${1%.*}" '{ ours = 0; line = ""
        for (i = 1; i <= NF; i++) {
          if ($i == "table") { i++; ours = $i == table; continue }
          if ($i ~ /^(linkdown|dead|pervasive|offload|trap|rt_offload|rt_trap)$/) continue
          line = line (line == "" ? "" : " ") $i }
        if (ours) print line }' "$work/kernel.routes" | sort
      ;;
  esac | paste -s -d , - | grep . || echo absent
}

write_route() { # <table>.rule|table VALUE|absent
  rm -f "$work/kernel.rules" "$work/kernel.routes"
  table=${1%.*}
  case $1 in
    *.rule) forget_rules "$(ip -4 rule show | grep -c "^$table:")" ;;
    *.table) ip -4 route flush table "$table" >/dev/null 2>&1 ;; # an empty table is an error to it
  esac
  [ "$2" != absent ] || return 0
  printf '%s\n' "$2" | tr , '\n' >"$work/kernel.entries"
  while IFS= read -r entry <&7; do
    # shellcheck disable=SC2086 # the words of a route
    case $1 in
      *.rule) run ip -4 rule add pref "$table" $entry ;;
      *.table) run ip -4 route add $entry table "$table" ;;
    esac
  done 7<"$work/kernel.entries"
}

forget_rules() { # COUNT : of the priority $table
  rules_left=$1
  while [ "$rules_left" -gt 0 ]; do
    run ip -4 rule del pref "$table"
    rules_left=$((rules_left - 1))
  done
}
