# shellcheck shell=sh
# The plan writes the first call in, and adds others as further lines. Each runs once: the log has its
# exit status too.
run() {
  echo 'railyard: attempt 1'
  status=0
  "$@" || status=$?
  echo # the last line of older releases has no end
  echo "railyard: attempt 1 ended with status $status"
  [ "$status" -eq 0 ] || exit "$status"
}
run ib_write_bw_call
