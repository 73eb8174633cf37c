# shellcheck shell=sh
# shellcheck disable=SC2154 # work, changed, FOLDER, ... are set by service.sh
# Removes the service that this stack made, and the package if it was not here before.
name_stack
take_lock
if [ ! -e "$state_dir/$NAME" ]; then
  printf '{"changed":[],"note":"this stack has no %s here"}\n' "$NAME"
  exit 0
fi
if [ -e "$UNIT_FILE" ]; then
  run systemctl disable --now "$UNIT"
  rm -f "$UNIT_FILE" "$UNIT_FILE.new"
  run systemctl daemon-reload
fi
rm -rf "$FOLDER"
rmdir "${FOLDER%/*}" 2>/dev/null
if [ -e "$state_dir/$NAME-package" ]; then
  export DEBIAN_FRONTEND=noninteractive
  run apt-get -o DPkg::Lock::Timeout=600 -y purge "$NAME"
fi
rm -f "$state_dir/$NAME-package" "$state_dir/$NAME"
rmdir "$state_dir" /var/lib/railyard 2>/dev/null
printf '{"changed":["%s"]}\n' "$NAME"
