#!/bin/sh
# The forced command of the containers' SSH key: what sshd runs, whatever mpirun on another host
# asked for. It starts Open MPI's daemon in this host's container, and nothing else. What it lets
# through is what Open MPI's rsh launcher sends (prte_plm_rsh, orte_plm_rsh):
#   [PATH=dir:$PATH ; export PATH ; LD_LIBRARY_PATH=... ; export LD_LIBRARY_PATH ;] orted|prted ...
set -u
container=mpicont # the plan writes the name of the container here
asked=${SSH_ORIGINAL_COMMAND-}

refuse() {
  echo "railyard: this key only starts Open MPI's orted or prted in the container; $1" >&2
  exit 1
}

# Variables that the launcher's own text uses; no other expansion may reach the container's shell.
rest=$(printf '%s\n' "$asked" | sed \
  -e 's/[$]{\(PATH\|LD_LIBRARY_PATH\|DYLD_LIBRARY_PATH\):-}/x/g' \
  -e 's/[$]\(PATH\|LD_LIBRARY_PATH\|DYLD_LIBRARY_PATH\)\([^A-Za-z0-9_]\|$\)/x\2/g')
case $rest in
  '') refuse 'no command was asked for' ;;
  *'
'*) refuse 'the command has several lines' ;;
  *[\\\`\$]*) refuse 'the command holds an expansion' ;;
esac
# Quoted arguments (addresses with ; and node lists with []) are data: take them out before looking
# for what a shell would act on.
rest=$(printf '%s\n' "$rest" | sed -e 's/"[^"]*"/q/g' -e "s/'[^']*'/q/g")
case $rest in
  *[!A-Za-z0-9\ _./:\;=,@%+-]*) refuse 'the command holds a sign that only a shell needs' ;;
esac

daemon=no
IFS=';'
set -f
for part in $rest; do
  [ "$daemon" = no ] || refuse 'something follows the daemon'
  part=${part#"${part%%[! ]*}"}
  part=${part%"${part##*[! ]}"}
  case ${part%% *} in
    '') ;;
    PATH=* | LD_LIBRARY_PATH=* | DYLD_LIBRARY_PATH=* | OPAL_PREFIX=* | PMIX_PREFIX=* | PRTE_PREFIX=*)
      case $part in *' '*) refuse "'${part%%=*}' is set for one command" ;; esac
      ;;
    export)
      case ${part#export } in
        PATH | LD_LIBRARY_PATH | DYLD_LIBRARY_PATH | OPAL_PREFIX | PMIX_PREFIX | PRTE_PREFIX) ;;
        *) refuse "'$part' is no part of a launch" ;;
      esac
      ;;
    orted | prted | /*/orted | /*/prted) daemon=yes ;;
    *) refuse "'${part%% *}' is something else" ;;
  esac
done
[ "$daemon" = yes ] || refuse 'there is none of them in the command'
unset IFS
exec sudo -n docker exec "$container" /bin/bash -c "$asked"
