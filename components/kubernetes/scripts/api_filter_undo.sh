# shellcheck shell=sh
# shellcheck disable=SC2154 # work, RULES, ... are set by api_filter_reading.sh
# Takes away the filter that this stack put before the API, and nothing else.
name_stack
take_lock
if [ ! -e "$state_dir/api-filter" ]; then
  printf '{"changed":[],"note":"this stack has no filter here"}\n'
  exit 0
fi
if [ -e "$UNIT_FILE" ]; then
  systemctl disable --now "$UNIT" >/dev/null 2>&1 # it fails where the table was taken away by hand
  rm -f "$UNIT_FILE" "$UNIT_FILE.new"
  run systemctl daemon-reload
fi
# shellcheck disable=SC2086 # family and name are two words
nft delete table $TABLE >/dev/null 2>&1
[ "$(read_table)" = absent ] || fail "the table $TABLE stays: delete it by hand (nft delete table $TABLE)"
rm -f "$RULES" "$RULES.new" "$LISTING"
rmdir "${RULES%/*}" 2>/dev/null
rm -f "$state_dir/api-filter"
rmdir "$state_dir" /var/lib/railyard 2>/dev/null
printf '{"changed":["api-filter"]}\n'
