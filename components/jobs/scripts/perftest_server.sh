# shellcheck shell=sh
# The plan adds the calls, each as `run PROGRAM ...`. Each runs once: the log has its exit status too.
run() {
  echo 'railyard: attempt 1'
  status=0
  "$@" || status=$?
  echo # the last line of older releases has no end
  echo "railyard: attempt 1 ended with status $status"
  [ "$status" -eq 0 ] || exit "$status"
}
