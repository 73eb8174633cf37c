# shellcheck shell=sh
# shellcheck disable=SC2154 # the plan sets stack and file before
# Removes the secret's file. POSIX sh, as root.
set -u
store=/var/lib/railyard/$stack/payload
rm -f "$store/$file" "$store/$file.new" || exit 1
rmdir "$store" "${store%/payload}" /var/lib/railyard 2>/dev/null
printf '{"changed":["%s"]}\n' "$file"
