# shellcheck shell=sh
# The plan writes the first call in, and adds others as lines; the first that fails ends all. The server's
# pod may need longer to start than this one: only while the server is not ready, the client tries again,
# for two minutes. The log has every attempt with its number and exit status. perftest says it so,
# V4.2-0.8 to 26.04.17 alike (src/perftest_communication.c): "Couldn't connect to" without -R; with it
# "Received 10 times ADDR_ERROR" while the server's address is not there, and event 8,
# RDMA_CM_EVENT_REJECTED of rdma_cma.h, while nothing listens there.
run() {
  deadline=$(($(date +%s) + ${patience:-120}))
  number=1
  while :; do
    echo "railyard: attempt $number"
    status=0
    "$@" >/tmp/perftest.log 2>&1 || status=$?
    cat /tmp/perftest.log
    echo # the last line of older releases has no end
    ended="railyard: attempt $number ended with status $status"
    again=no
    case $(cat /tmp/perftest.log) in
      *'Completion with error'* | *'Failed status'* | *'#bytes'*[0-9]*) ;;
      *"Couldn't connect to "* | *' times ADDR_ERROR'* | *'Unexpected CM event bl blka 8'*)
        [ "$(date +%s)" -ge "$deadline" ] || again=yes
        ;;
    esac
    if [ "$status" -eq 0 ] || [ "$again" = no ]; then
      echo "$ended"
      [ "$status" -ne 0 ] || return 0
      exit "$status"
    fi
    echo "$ended: the server is not ready, trying again"
    number=$((number + 1))
    sleep 2
  done
}
run ib_write_bw_call
