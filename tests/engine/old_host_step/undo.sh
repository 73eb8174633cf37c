# shellcheck shell=sh
# Its undo, which a state of that time holds.
state_dir=/var/lib/railyard/dev
cat >/dev/null
[ -e "$state_dir/baseline" ] || exit 0
cat "$state_dir/hosts.orig" >/etc/hosts
rm -r "$state_dir"
rmdir /var/lib/railyard
echo '{"changed":["hosts.gpu01","hosts.mgmt01"],"left":[]}'
