# shellcheck shell=sh
# shellcheck disable=SC2154 # work is set by linux.sh
# Uninstalls the K3s that this stack installed on this host, and nothing else. POSIX sh, as root.
# stdin: the lines that were applied; only role=, stack=, reset=, peers= and api_port= count.
# The last server keeps etcd, with all that the cluster stores, unless reset=allow was applied.
begin_work

refuse_loss() { # etcd of this server is the only one that is left
  [ "$role" = server ] && [ "$reset" != allow ] || return 0
  [ -e "/var/lib/rancher/k3s/server/db" ] || return 0 # it never started: nothing is stored
  for peer in $peers; do # 401: an API that answers, and asks for a certificate
    case $(curl -sk --noproxy '*' -m 5 -o /dev/null -w '%{http_code}' "https://$peer:${api_port:-6443}/readyz") in
      200 | 401) return 0 ;;
    esac
  done
  echo 'railyard: uninstalling K3s here would delete the cluster with all that is stored in it, and' \
    'kubernetes.reset is deny: nothing was changed here. Write kubernetes: {reset: allow}, run' \
    'pulumi up, and then remove the server or destroy' >&2
  exit 1
}

remove_policy() { # where K3s was not far enough installed to have an uninstall script, or that one failed
  [ -e "$owned-selinux" ] && rpm -q k3s-selinux >/dev/null 2>&1 || return 0
  output=$(dnf -y remove k3s-selinux 2>&1 </dev/null 9>&-) || {
    echo "railyard: K3s' SELinux policy cannot be removed: $output" >&2
    exit 1
  }
}

cat >"$work/input"
role=$(wanted role)
reset=$(wanted reset)
peers=$(wanted peers)
api_port=$(wanted api_port)
name_stack
take_lock

owned=$state_dir/k3s
if [ ! -e "$owned" ]; then
  printf '{"changed":[],"note":"this stack has no K3s here"}\n'
  exit 0
fi
refuse_loss
uninstall=/usr/local/bin/k3s-uninstall.sh
[ "$role" = server ] || uninstall=/usr/local/bin/k3s-agent-uninstall.sh
if [ -e "$uninstall" ]; then
  # by itself it also removes K3s' SELinux policy and that one's repository, whoever installed them
  spared=''
  [ -e "$owned-selinux" ] || spared='s/^ *yum remove -y k3s-selinux$/:/; s/^ *rm -f .*rancher-k3s-common.*/:/'
  sed "$spared" "$uninstall" >"$work/uninstall.sh" || exit 1
  output=$(sh "$work/uninstall.sh" 2>&1 </dev/null 9>&-) || {
    echo "railyard: $uninstall failed: $output" >&2
    exit 1
  }
fi
rm -f /usr/local/bin/k3s /usr/local/bin/k3s.new # the install script itself failed, or never ran
rm -f /etc/systemd/system/k3s*.service.d/railyard-proxy.conf /etc/rancher/k3s/proxy.env
rm -f /etc/rancher/k3s/config.yaml /etc/rancher/k3s/registries.yaml /etc/rancher/k3s/*.new
rm -f /etc/rancher/k3s/registry-ca.crt
rm -f /etc/rancher/k3s/config.yaml.d/railyard-join.yaml
rmdir /etc/rancher/k3s/config.yaml.d 2>/dev/null
rm -f /etc/rancher/node/password # K3s' own uninstall leaves it
rmdir /etc/rancher/node /etc/rancher/k3s /etc/rancher /var/lib/rancher 2>/dev/null
remove_policy
rm -f "$owned" "$owned-kubelet" "$owned-selinux"
rmdir "${owned%/*}" /var/lib/railyard 2>/dev/null
printf '{"changed":["k3s"]}\n'
