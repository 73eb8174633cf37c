# shellcheck shell=sh
# shellcheck disable=SC2154 # the plan sets programs, linked and port before
# In a pod of the jobs' image, before the first job: prints what the image has, one fact a line. It
# judges nothing. sshd is started for real, with a key of this pod, and root logs in by that key.
# POSIX sh.
set -u
say() { printf 'railyard-image: %s=%s\n' "$1" "$2"; }
where() {
  case $1 in /*) [ ! -x "$1" ] || echo "$1" ;; *) command -v "$1" ;; esac
}
# The release of an NCCL: distributions have it in the file's name, wheels and static programs in a text.
release_of() {
  file=$(readlink -f "$1") || return 0
  case ${file##*/} in
    libnccl.so.*.*) echo "${file##*/libnccl.so.}" ;;
    *) grep -a -o 'NCCL version [0-9][0-9.]*' "$file" 2>/dev/null | head -n 1 | cut -d' ' -f3 ;;
  esac
}
for program in $programs; do
  say "program $program" "$(where "$program")"
done
say uid "$(id -u)"
mpirun=$(where "$mpirun") && [ -n "$mpirun" ] && {
  say 'mpirun version' "$("$mpirun" --allow-run-as-root --version 2>&1 | head -n 1)"
  for name in orted prted; do
    [ ! -x "${mpirun%/*}/$name" ] || say daemon "${mpirun%/*}/$name"
  done
}
for program in $linked; do
  path=$(where "$program")
  [ -n "$path" ] || continue
  list=$(ldd "$path" 2>&1) || list=''
  case $list in
    '') say "mpi $program" unknown ;;
    *libmpi*) say "mpi $program" yes ;;
    *) say "mpi $program" no ;;
  esac
  case $list in *libnccl.so*) ;; *) say "nccl $program" "$(release_of "$path")" ;; esac
  printf '%s\n' "$list" | while read -r name arrow rest; do
    # The driver's own libraries come from the node, and only into pods with GPUs.
    case "$name $arrow $rest" in
      libnccl.so*' => /'*) say "nccl $program" "$(release_of "${rest%% (*}")" ;;
    esac
    case "$name $arrow $rest" in
      libcuda.so* | libnvidia-*) ;;
      *'=> not found') say "library $program" "$name" ;;
    esac
  done
done

case " $programs " in
  *' deepspeed '*)
    show='import torch; print(*torch.cuda.nccl.version()[:3], sep=".")'
    say 'nccl torch' "$(python3 -c "$show" 2>/dev/null)"
    ;;
esac

log_in() {
  ssh-keygen -q -t ed25519 -N '' -f "$1/key" || return 1
  printf '* %s\n' "$(cut -d' ' -f1,2 "$1/key.pub")" >"$1/known"
  /usr/sbin/sshd -E "$1/log" -p "$port" -o ListenAddress=127.0.0.1 -o StrictModes=no \
    -o "HostKey=$1/key" -o "AuthorizedKeysFile=$1/key.pub" -o "PidFile=$1/pid" || return 1
  ssh -i "$1/key" -p "$port" -o ConnectionAttempts=10 -o BatchMode=yes -o IdentitiesOnly=yes \
    -o StrictHostKeyChecking=yes -o "UserKnownHostsFile=$1/known" root@127.0.0.1 \
    'printf "railyard-image: %s=%s\n" path "$PATH" home "$HOME"'
}
if [ -n "$(where /usr/sbin/sshd)" ] && [ -n "$(where ssh)" ]; then
  folder=/tmp/railyard-image
  mkdir -p "$folder"
  : >"$folder/log"
  if log_in "$folder" 2>"$folder/errors"; then
    say login ok
  else
    say login failed
    cat "$folder/errors" "$folder/log" | while read -r line; do
      say said "$line"
    done
  fi
  [ ! -s "$folder/pid" ] || kill "$(cat "$folder/pid")"
fi
say end ok
