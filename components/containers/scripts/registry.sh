# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # input.sh and the plan set what is used
# Logging in to registries. The logins live in a folder of this run only.

registry_login() { # registry|base_registry : the one that stdin names so, if it names a user
  registry_user=$(wanted "$1_user")
  [ -n "$registry_user" ] || return 0
  [ -s "$store/$1-password" ] ||
    fail "$store/$1-password is lost: give $registry_user a new password at $(wanted "$1"), and set" \
      'it as the secret of the site'
  export DOCKER_CONFIG="$work/docker"
  mkdir -p "$DOCKER_CONFIG"
  login_output=$(docker login --username "$registry_user" --password-stdin "$(wanted "$1")" \
    <"$store/$1-password" 2>&1) ||
    fail "$(wanted "$1") refuses the login of $registry_user: $login_output"
}

registry_logout() { # registry|base_registry
  [ -n "$(wanted "$1_user")" ] || return 0
  docker logout "$(wanted "$1")" >/dev/null 2>&1
}

note_new_image() { # IMAGE : one that is not here yet is ours to take away
  [ -z "$(image_id "$1")" ] || return 0
  grep -qxF "$1" "$store/images" 2>/dev/null || echo "$1" >>"$store/images"
}
