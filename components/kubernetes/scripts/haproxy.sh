# shellcheck shell=sh
# shellcheck disable=SC2154 # work, changed, FOLDER, ... are set by service.sh
# Brings HAProxy to the state on stdin; follows service_change.sh. stdout: one line of JSON.

draft() { # the folder as it shall be, under $work/draft
  mkdir "$work/draft"
  lines_of haproxy.cfg >"$work/draft/haproxy.cfg"
  wanted ca_base64 | base64 -d >"$work/draft/ca.crt" 2>/dev/null
  grep -q 'BEGIN CERTIFICATE' "$work/draft/ca.crt" ||
    fail 'stdin carries no CA certificate: the step before this one read none from the first server'
  sha256sum "$work/draft/ca.crt" | cut -d ' ' -f 1 >"$work/draft/ca.sha256"
  also=$(wanted also_listen)
  if [ -n "$also" ] && is_local "${also%:*}"; then
    printf 'frontend also\n    bind %s\n    default_backend servers\n' "$also" >"$work/draft/listen.cfg"
  fi
  # The trial must not name the CA in place, which may be another one or none.
  mkdir "$work/trial"
  for file in "$work"/draft/*.cfg; do
    sed "s|$FOLDER/ca.crt|$work/draft/ca.crt|" "$file" >"$work/trial/${file##*/}"
  done
  trial=$(haproxy -c -f "$work/trial" 2>&1) ||
    fail "HAProxy refuses the configuration, and the one in place was left alone: $trial"
}

claim
install_package 'HAProxy 2.2 or later'
draft
put_files ca.crt ca.sha256 haproxy.cfg listen.cfg
start_service
report_service ca_base64
