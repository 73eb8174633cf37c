# shellcheck shell=sh
# shellcheck disable=SC2034 # the text that follows uses $program
# In the launcher: every worker shows the job's own key as its host key. mpirun is called by its full
# path, so that it starts its daemon on the workers from beside itself, whatever PATH sshd gives them.
# POSIX sh.
set -eu
printf '* %s\n' "$(cut -d' ' -f1,2 /root/.ssh/id_rsa.pub)" >/tmp/railyard_known_hosts
program=$(command -v "$1") || {
  echo "railyard: $1: not found: this image has none on its PATH ($PATH)" >&2
  exit 127
}
shift
