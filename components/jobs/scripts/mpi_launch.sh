# shellcheck shell=sh
# shellcheck disable=SC2154 # mpi_program.sh, which runs before, sets $program
exec "$program" "$@"
