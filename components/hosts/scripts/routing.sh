# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # work, ... are set by input.sh
# Routes by source address: what a rail's address sends leaves by its rail. `route.<table>.table` is
# the content of one routing table, `route.<table>.rule` the rule of that priority which leads to it.

find_route() { # <table>.rule|table : all lines of that number, one after the other by commas
  if [ ! -e "$work/kernel.routes" ]; then
    ip -4 rule show >"$work/kernel.rules" 2>/dev/null
    ip -4 route show table all >"$work/kernel.table_lines" 2>/dev/null
    # What the kernel says of a link's state is not ours to put back.
    awk -v tables="$work/kernel.tables" 'FILENAME == ARGV[1] { number = $1; sub(/:$/, "", number); $1 = ""
        gsub(/ (proto|protocol) [^ ]+/, ""); gsub(/^ +| +$/, ""); print number ".rule=" $0; next }
      { table = ""; line = ""
        for (i = 1; i <= NF; i++) {
          if ($i == "table") { i++; table = $i; continue }
          if ($i ~ /^(linkdown|dead|pervasive|offload|trap|rt_offload|rt_trap)$/) continue
          line = line (line == "" ? "" : " ") $i }
        if (table ~ /^[0-9]+$/) print table ".table=" line >tables }' \
      "$work/kernel.rules" "$work/kernel.table_lines" >"$work/kernel.routes"
    [ ! -s "$work/kernel.tables" ] || sort "$work/kernel.tables" >>"$work/kernel.routes"
  fi
  value=''
  while IFS= read -r route_line; do
    case $route_line in "$1="*) value=$value${value:+,}${route_line#*=} ;; esac
  done <"$work/kernel.routes"
  value=${value:-absent}
}

write_route() { # <table>.rule|table VALUE|absent
  rm -f "$work/kernel.routes" "$work/kernel.tables"
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
