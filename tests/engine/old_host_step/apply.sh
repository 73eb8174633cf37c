# shellcheck shell=sh
# What a host step was before tools were sent once: a whole script as text. In small, with the
# records that the whole one left: previous values a name, and the part of /etc/hosts.
state_dir=/var/lib/railyard/dev
cat >/dev/null
[ -e "$state_dir/baseline" ] && exit 0
mkdir -p "$state_dir"
cp /etc/hosts "$state_dir/hosts.orig"
printf 'hostname=%s\nhosts.gpu01=absent\nhosts.mgmt01=absent\n' "$(uname -n)" >"$state_dir/baseline"
printf '# railyard dev: begin, do not edit\n192.0.2.1 gpu01\n192.0.2.3 mgmt01\n# railyard dev: end\n' >>/etc/hosts
echo '{"changed":["hosts.gpu01","hosts.mgmt01"],"unchanged":1,"reboot_required":false}'
