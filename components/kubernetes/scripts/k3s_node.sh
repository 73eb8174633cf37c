# shellcheck shell=sh
# shellcheck disable=SC2154 # node, machine, ... are set by member.sh
# Waits until the API calls a node Ready, and writes on it which machine it is. Runs on the first
# server, after the node joined.
READY_DEADLINE_S=300

wait_for "$API_DEADLINE_S" api_answers ||
  fail "the API of this server does not answer: ${api_says:-no answer}"
wait_for "$READY_DEADLINE_S" node_is_ready ||
  fail "node $node is not Ready after $READY_DEADLINE_S s; see the journal of k3s on it"
if [ "$(node_field '.metadata.annotations.railyard\.dev/machine')" != "$machine" ]; then
  run kubectl annotate node "$node" --overwrite "railyard.dev/machine=$machine"
  changed="$changed machine"
fi
report running
