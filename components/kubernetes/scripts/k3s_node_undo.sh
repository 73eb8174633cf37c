# shellcheck shell=sh
# shellcheck disable=SC2154 # node, role, ... are set by member.sh
# Takes a node out of the cluster before its machine goes: drained, its etcd member removed, its
# Node and password deleted. Runs on the first server.
DRAIN_S=120

if [ ! -e "/var/lib/railyard/$stack/k3s" ] || ! systemctl is-active --quiet k3s.service; then
  report none # the cluster itself is gone
  exit 0
fi
wait_for "$API_DEADLINE_S" api_answers ||
  fail "the API of this server does not answer (${api_says:-no answer}); $node stays in the cluster"
if node_exists; then
  if node_is_ready; then
    run kubectl drain "$node" --ignore-daemonsets --delete-emptydir-data --force \
      "--timeout=${DRAIN_S}s"
    changed="$changed drained"
  fi
  [ "$role" = agent ] || remove_member
fi
forget_node
report running
