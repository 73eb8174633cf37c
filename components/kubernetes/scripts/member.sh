# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # the scripts that follow this text use the variables; linux.sh sets work
# What the steps on a server need to look at, and to change, who belongs to its cluster. It reads
# stdin: key=value lines with node, role, machine and stack. POSIX sh, as root.
begin_work

API_DEADLINE_S=60
MEMBER_DEADLINE_S=180 # K3s looks at the annotation at once; a loaded etcd answers in seconds

kubectl() { # its cache would stay in root's home for ever
  k3s kubectl --cache-dir "$work/cache" --kubeconfig /etc/rancher/k3s/k3s.yaml "$@"
}

wait_for() { # SECONDS COMMAND... : true as soon as the command is
  wait_left_s=$1
  shift
  until "$@"; do
    [ "$wait_left_s" -gt 0 ] || return 1
    sleep 1
    wait_left_s=$((wait_left_s - 1))
  done
}

api_answers() {
  api_says=$(kubectl get --raw /readyz 2>&1)
  [ "$api_says" = ok ]
}

node_field() { # JSONPATH : empty where there is no such node
  kubectl get node "$node" --ignore-not-found -o "jsonpath={$1}"
}

node_exists() { [ -n "$(node_field .metadata.name)" ]; }

node_is_ready() {
  [ "$(node_field '.status.conditions[?(@.type=="Ready")].status')" = True ]
}

node_is_lost() { ! node_is_ready; }

member_is_gone() { [ -n "$(node_field '.metadata.annotations.etcd\.k3s\.cattle\.io/removed-node-name')" ]; }

remove_member() { # K3s itself takes the member out of etcd, and says so on the node
  [ -n "$(node_field '.metadata.annotations.etcd\.k3s\.cattle\.io/node-name')" ] || return 0
  run kubectl annotate node "$node" --overwrite etcd.k3s.cattle.io/remove=true
  changed="$changed etcd-member"
  wait_for "$MEMBER_DEADLINE_S" member_is_gone ||
    fail "the etcd member of $node is not removed after $MEMBER_DEADLINE_S s; nothing may join" \
      "before it is: see the journal of k3s here, and k3s etcd-snapshot before any other repair"
}

forget_node() { # else K3s refuses another machine of that name
  run kubectl delete node "$node" --ignore-not-found
  run kubectl -n kube-system delete secret "$node.node-password.k3s" --ignore-not-found
  changed="$changed node"
}

report() { # STATE
  print_changed ",\"state\":\"$1\""
}

cat >"$work/input"
node=$(wanted node)
role=$(wanted role)
name_stack
machine=$(wanted machine | sha256sum | cut -c 1-16)
case $node in '' | *[!a-z0-9.-]*) fail "bad node name '$node'" ;; esac
case $role in server | agent) ;; *) fail "role '$role' is neither server nor agent" ;; esac
