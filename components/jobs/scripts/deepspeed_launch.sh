# shellcheck shell=sh
# In the launcher: every worker must be known to the cluster's DNS, and every worker shows the job's
# own key as its host key, so that no check has to be switched off. The call is written in by the
# plan; $master is the first worker.
set -eu
mkdir -p /job
cp /etc/mpi/hostfile /job/hostfile
printf '* %s\n' "$(cut -d' ' -f1,2 /root/.ssh/id_rsa.pub)" >/etc/ssh/ssh_known_hosts
# ssh takes the first value that it reads.
{ printf 'Host *\n  Port %s\n' deepspeed_port; cat /etc/ssh/ssh_config; } >/job/ssh_config
cp /job/ssh_config /etc/ssh/ssh_config
master=''
while read -r name slots; do
  [ -n "$name" ] || continue
  address=$(getent hosts "$name" | cut -d' ' -f1) || address=''
  [ -n "$address" ] || {
    echo "railyard: $name of /job/hostfile does not resolve: look at the cluster's DNS" >&2
    exit 1
  }
  echo "railyard: $name resolves to $address ($slots)"
  master=${master:-$name}
done </job/hostfile
deepspeed_call
