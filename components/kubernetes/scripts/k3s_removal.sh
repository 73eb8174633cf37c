# shellcheck shell=sh
# shellcheck disable=SC2154 # node, role, machine, stack, ... are set by member.sh
# Forgets the machine that had a node's name before the present one: its etcd member, its Node, its
# password. Runs on another server, before the new machine joins. A node that lives is left alone.
LOST_DEADLINE_S=120 # Kubernetes calls a silent node lost after 40 to 50 s

if [ ! -e "/var/lib/railyard/$stack/k3s" ]; then
  report none # no cluster of this stack has been here yet
  exit 0
fi
wait_for "$API_DEADLINE_S" api_answers ||
  fail "K3s is installed on this server and its API does not answer (${api_says:-no answer}):" \
    'bring it up first; a new machine that joined now could begin a second cluster'
if ! node_exists; then
  run kubectl -n kube-system delete secret "$node.node-password.k3s" --ignore-not-found
elif [ "$(node_field '.metadata.annotations.railyard\.dev/machine')" != "$machine" ] &&
  wait_for "$LOST_DEADLINE_S" node_is_lost; then
  [ "$role" = agent ] || remove_member
  forget_node
fi
report running
