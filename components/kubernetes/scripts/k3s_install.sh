# shellcheck shell=sh
# shellcheck disable=SC2154 # REGISTRY_PASSWORD and REGISTRY_MARK are set by registry.sh
# Installs one K3s server or agent from a checked binary and install script, or changes only what
# differs. POSIX sh, as root. stdin: key=value lines; `config.yaml.NN` and `registries.yaml.NN` are
# the lines of those files. stdout: one line of JSON evidence.
begin_work

POLICY=/usr/share/selinux/packages/k3s.pp
JOIN_FILE=/etc/rancher/k3s/config.yaml.d/railyard-join.yaml
READY_DEADLINE_S=300 # a first start unpacks its images; seconds, not minutes, on real hosts
unchanged=0

same_digest() { # FILE SHA256
  [ -e "$1" ] && [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$2" ]
}

fetch() { # SOURCE SHA256 FILE : nothing unchecked is ever run
  case $1 in
    https://*) run curl -fsSL --proto =https --retry 3 -o "$3" "$1" ;;
    /*) run cp "$1" "$3" ;;
    *) fail "$1 is neither an absolute path nor an https address" ;;
  esac
  same_digest "$3" "$2" ||
    fail "checksum of $1 is $(sha256sum "$3" | cut -d ' ' -f 1), want $2; it was not used"
}

put_proxy() { # what containerd pulls images through: read by the unit, after what the site has of its own
  put_config proxy.env
  proxy_unit=/etc/systemd/system/$unit.service.d/railyard-proxy.conf
  if [ ! -s "$work/proxy.env" ]; then
    rm -f "$proxy_unit"
    return
  fi
  [ ! -e "$proxy_unit" ] || return 0
  (umask 022 && mkdir -p "${proxy_unit%/*}")
  printf '[Service]\nEnvironmentFile=-/etc/rancher/k3s/proxy.env\n' >"$proxy_unit" || fail "cannot write $proxy_unit"
  changed="$changed proxy"
}

put_config() { # NAME : one file of /etc/rancher/k3s
  lines_of "$1" | with_password >"$work/$1"
  if cmp -s "$work/$1" "/etc/rancher/k3s/$1" || { [ ! -s "$work/$1" ] && [ ! -e "/etc/rancher/k3s/$1" ]; }; then
    unchanged=$((unchanged + 1))
    return
  fi
  if [ -s "$work/$1" ]; then
    (umask 022 && mkdir -p /etc/rancher/k3s)
    run cp "$work/$1" "/etc/rancher/k3s/$1.new"
    run mv "/etc/rancher/k3s/$1.new" "/etc/rancher/k3s/$1"
  else
    rm -f "/etc/rancher/k3s/$1"
  fi
  changed="$changed $1"
}

install_k3s() {
  binary_sha256=$(wanted binary_sha256)
  if same_digest /usr/local/bin/k3s "$binary_sha256" && [ -e "/etc/systemd/system/$unit.service" ]; then
    unchanged=$((unchanged + 1))
    return
  fi
  fetch "$(wanted binary)" "$binary_sha256" "$work/k3s"
  fetch "$(wanted install_script)" "$(wanted install_script_sha256)" "$work/install.sh"
  chmod 0755 "$work/k3s"
  found=$("$work/k3s" --version 2>/dev/null | sed -n 's/^k3s version \([^ ]*\).*/\1/p')
  [ "$found" = "$(wanted version)" ] ||
    fail "the K3s binary says it is '${found:-nothing}', kubernetes.version is $(wanted version)"
  (umask 022 && mkdir -p /usr/local/bin)
  run cp -p "$work/k3s" /usr/local/bin/k3s.new
  run mv /usr/local/bin/k3s.new /usr/local/bin/k3s
  changed="$changed k3s"
  (
    umask 022
    INSTALL_K3S_SKIP_DOWNLOAD=true INSTALL_K3S_SKIP_START=true INSTALL_K3S_EXEC=$role \
      sh "$work/install.sh"
  ) </dev/null >"$work/install.log" 2>&1 ||
    fail "the K3s install script failed: $(tail -n 20 "$work/install.log")"
}

put_policy() { # before K3s makes a file that it labels; a policy that is there already is not ours
  policy_sha256=$(wanted selinux_policy_sha256)
  [ -n "$policy_sha256" ] && [ -e /sys/fs/selinux/enforce ] || return 0
  recorded=$(cat "$owned-selinux" 2>/dev/null)
  if [ -e "$POLICY" ] && { [ -z "$recorded" ] || [ "$recorded" = "$policy_sha256" ]; }; then
    unchanged=$((unchanged + 1))
    return
  fi
  command -v dnf >/dev/null ||
    fail "this host has SELinux and no dnf: install K3s' policy yourself ($POLICY), then run again"
  fetch "$(wanted selinux_policy)" "$policy_sha256" "$work/k3s-selinux.rpm"
  echo "$policy_sha256" >"$owned-selinux" || fail "cannot write $owned-selinux"
  sync "$owned-selinux"
  # its scriptlets make folders of K3s, which must not get our umask
  (umask 022 && dnf -y install "$work/k3s-selinux.rpm") >"$work/dnf.log" 2>&1 </dev/null 9>&- ||
    fail "dnf did not install K3s' SELinux policy (container-selinux comes from the host's repositories):" \
      "$(grep . "$work/dnf.log" | tail -n 3 | paste -s -d ' ' -)"
  [ -e "$POLICY" ] ||
    fail "$(wanted selinux_policy) is installed and there is no $POLICY: is it K3s' SELinux policy?"
  changed="$changed selinux_policy"
}

label_k3s() { # as install.sh does where it installs the policy itself
  [ -e "$POLICY" ] && [ -e /sys/fs/selinux/enforce ] || return 0
  run restorecon /usr/local/bin/k3s
}

put_images() { # the images that K3s itself runs, where nodes reach no registry
  images_sha256=$(wanted images_sha256)
  [ -n "$images_sha256" ] || return 0
  archive=/var/lib/rancher/k3s/agent/images/railyard-$(wanted images | sed 's|.*/||')
  if same_digest "$archive" "$images_sha256"; then
    unchanged=$((unchanged + 1))
    return
  fi
  run mkdir -p "${archive%/*}"
  fetch "$(wanted images)" "$images_sha256" "$archive.new"
  run mv "$archive.new" "$archive"
  changed="$changed images"
}

kubectl() { # KUBECONFIG ARGUMENTS... : its cache would stay in root's home for ever
  kubectl_config=$1
  shift
  k3s kubectl --cache-dir "$work/cache" --kubeconfig "$kubectl_config" "$@"
}

ready() { # the API of a server answers, and this node is Ready
  [ "$role" = agent ] || [ "$(kubectl "$kubeconfig" get --raw /readyz 2>&1)" = ok ] || return 1
  condition=$(kubectl "$kubeconfig" get node "$node" \
    -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2>&1)
  [ "$condition" = True ]
}

node_is_gone() { # deleted in the API: a kubelet registers its node at its start, and never again
  [ -e "$kubeconfig" ] && kubectl "$kubeconfig" get node "$node" 2>&1 | grep -q '(NotFound)'
}

api_state() { # ADDRESS : up, down (nobody listens there), or what else there is
  api_code=$(curl -sk --noproxy '*' -m 5 -o /dev/null -w '%{http_code}' "https://$1:$api_port/readyz")
  case $?:$api_code in
    0:200 | 0:401) echo up ;; # K3s asks for a certificate: 401 is an API that answers
    7:*) echo down ;;
    0:*) echo "answers with status $api_code" ;;
    *) echo 'does not answer within 5 s' ;;
  esac
}

choose_cluster() { # a server without data joins the cluster that is there; it never begins a second
  [ "$role" = server ] && [ -n "$peers" ] && [ ! -e /var/lib/rancher/k3s/server/db/etcd ] || return 0
  command -v curl >/dev/null || fail 'curl is not installed on this host: a server looks for the others with it'
  found=''
  unsure=''
  for peer in $peers; do
    state=$(api_state "$peer")
    case $state in
      up) found=${found:-$peer} ;;
      down) ;;
      *) unsure="${unsure}the server at $peer:$api_port $state; " ;;
    esac
  done
  wanted=$(sed -n 's|^server: "https://\(.*\):[0-9]*"$|\1|p' /etc/rancher/k3s/config.yaml)
  if [ -z "$found" ]; then
    [ -z "$unsure" ] || fail "${unsure}a cluster may be there, so none is begun here: open the port, or wait"
    [ -z "$wanted" ] ||
      fail "no server of the cluster answers, so nothing can be joined: $wanted has to be up first"
    [ "$(wanted cluster)" = none ] ||
      fail "this machine replaces a server of a cluster that runs, and reaches none of its servers" \
        "($peers, port $api_port): a new cluster is not begun beside it"
    return 0
  fi
  [ -z "$wanted" ] || [ "$(api_state "$wanted")" != up ] || return 0
  (umask 022 && mkdir -p "${JOIN_FILE%/*}")
  printf 'cluster-init: false\nserver: "https://%s:%s"\n' "$found" "$api_port" >"$JOIN_FILE" ||
    fail "cannot write $JOIN_FILE"
  changed="$changed join"
}

kubelet_arguments() { # of this node, as K3s' file has them
  sed -n 's/^kubelet-arg: //p' /etc/rancher/k3s/config.yaml
}

forget_kubelet_state() { # a kubelet refuses to start with the state of another policy or other CPUs
  [ "$(cat "$owned-kubelet" 2>/dev/null)" != "$(kubelet_arguments)" ] || return 0
  systemctl stop "$unit.service" 9>&- 2>/dev/null
  rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state
  changed="$changed kubelet"
}

record_kubelet() {
  if [ -n "$(kubelet_arguments)" ]; then
    kubelet_arguments >"$owned-kubelet"
  else
    rm -f "$owned-kubelet"
  fi
}

forget_join() { # from the next start on the data on disk says where this server belongs
  rm -f "$JOIN_FILE"
  rmdir "${JOIN_FILE%/*}" 2>/dev/null
}

refused_for_good() { # the words with which K3s refuses what another try does not mend
  journalctl -u "$unit" -n 4 --no-pager 2>/dev/null |
    grep -E 'CA hash does not match|different token|[Uu]nauthorized|password rejected|value mismatch' |
    tail -n 1
}

why_refused() { # WORDS : what helps
  case $1 in
    *'password rejected'*)
      printf '%s' "Another machine joined as $node before: choose another name, or, where that machine is gone," \
        " run on a server: k3s kubectl delete node $node;" \
        " k3s kubectl -n kube-system delete secret $node.node-password.k3s"
      ;;
    *)
      printf '%s' 'Is it the token of this cluster (kubernetes.token, of workers kubernetes.agent_token' \
        ' where there is one), and is there data of another one in /var/lib/rancher/k3s?'
      ;;
  esac
}

wait_ready() {
  waited_s=0
  until ready; do
    if [ "$((waited_s % 15))" = 14 ]; then
      refusal=$(refused_for_good)
      [ -z "$refusal" ] ||
        fail "$node is not let into the cluster: $refusal. $(why_refused "$refusal")"
    fi
    [ "$waited_s" -lt "$READY_DEADLINE_S" ] ||
      fail "$unit is not ready after $READY_DEADLINE_S s ($condition):" \
        "$(journalctl -u "$unit" -n 20 --no-pager 2>&1)"
    sleep 1
    waited_s=$((waited_s + 1))
  done
}

refuse_other_role() { # a server keeps a member of etcd, so K3s cannot turn one into the other in place
  case $role in
    agent) is=server && set -- /etc/systemd/system/k3s.service /var/lib/rancher/k3s/server/db ;;
    *) is=agent && set -- /etc/systemd/system/k3s-agent.service ;;
  esac
  [ -e "$1" ] || [ -e "${2:-$1}" ] || return 0
  fail "this host is a K3s $is and would become a K3s $role; nothing was changed on it: remove the host from" \
    "the file, update, and then add it with its new role"
}

cat >"$work/input"
role=$(wanted role)
node=$(wanted node)
name_stack
peers=$(wanted peers)
api_port=$(wanted api_port)
condition='the API does not answer'
case $role in
  server) unit=k3s kubeconfig=/etc/rancher/k3s/k3s.yaml ;;
  agent) unit=k3s-agent kubeconfig=/var/lib/rancher/k3s/agent/kubelet.kubeconfig ;;
  *) fail "role '$role' is neither server nor agent" ;;
esac
take_lock

owned=$state_dir/k3s
if [ ! -e "$owned" ]; then
  for other in k3s k3s-agent; do
    [ ! -e "/etc/systemd/system/$other.service" ] ||
      fail "this host already runs $other.service, which this stack did not install: uninstall it first"
  done
  [ ! -e /var/lib/rancher/k3s/server ] && [ ! -e /var/lib/rancher/k3s/agent ] ||
    fail 'this host holds the data of another K3s cluster in /var/lib/rancher/k3s, which this stack' \
      'did not install: move it away, then run again'
  run mkdir -p "${owned%/*}"
  echo installing >"$owned" || fail "cannot write $owned"
  sync "$owned"
else
  refuse_other_role
fi
put_policy
put_config config.yaml
put_config registry-ca.crt
if grep -q "$REGISTRY_MARK" "$work/input" && [ ! -s "$REGISTRY_PASSWORD" ]; then
  fail "$REGISTRY_PASSWORD is not there: the step that writes the registry's password has not run"
fi
put_config registries.yaml
put_images
put_proxy
install_k3s
label_k3s
enable_unit "$unit.service"
running=$(cat /etc/rancher/k3s/config.yaml "$work/registries.yaml" "$work/proxy.env" /usr/local/bin/k3s | sha256sum)
# the recorded digest, and not $changed: the run before this one may have ended before the restart
if [ "$(cat "$owned")" != "$running" ] || ! systemctl is-active --quiet "$unit.service" || node_is_gone; then
  run systemctl daemon-reload
  choose_cluster
  forget_kubelet_state
  # fd 9 must not reach the services: they would hold the lock for ever
  systemctl restart "$unit.service" 9>&- >"$work/restart.log" 2>&1 ||
    fail "$unit.service does not start: $(cat "$work/restart.log") $(journalctl -u "$unit" -n 20 --no-pager 2>&1)"
  changed="$changed service"
fi
wait_ready
forget_join
record_kubelet
echo "$running" >"$owned"
print_changed ",\"unchanged\":$unchanged,\"reboot_required\":false"
