# shellcheck shell=sh
# shellcheck disable=SC2154 # the plan sets stack and file before
# Writes the secret that comes on stdin to a file that only root reads: the steps after this one
# use it, also when they repair something without asking for the secret again. POSIX sh, as root.
set -u
umask 077
store=/var/lib/railyard/$stack/payload
secret=$(cat)
[ -n "$secret" ] || {
  echo "railyard: the secret for $store/$file is empty" >&2
  exit 1
}
if [ -e "$store/$file" ] && [ "$(cat "$store/$file")" = "$secret" ]; then
  printf '{"changed":[],"unchanged":1,"reboot_required":false}\n'
  exit 0
fi
mkdir -p "$store" || exit 1
printf '%s\n' "$secret" >"$store/$file.new" && sync "$store/$file.new" &&
  mv "$store/$file.new" "$store/$file" || exit 1
printf '{"changed":["%s"],"unchanged":0,"reboot_required":false}\n' "$file"
