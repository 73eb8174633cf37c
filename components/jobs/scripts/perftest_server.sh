# shellcheck shell=sh
# The call is written in by the plan.
exec ib_write_bw_call
