# shellcheck shell=sh
# shellcheck disable=SC2154 # input.sh and the plan set what is used
# Builds the image from the Dockerfile of this tool and pushes it, or does neither when this build is
# here and was pushed. stdin: key=value lines, `arg.NAME` the arguments of the Dockerfile. stdout:
# one line of JSON evidence.

read_input
take_lock
image=$(wanted image)
build=$(wanted build)
mkdir -p "$store" || fail "cannot create $store"
registry_login registry
if [ "$(label_of_image "$image")" != "$build" ]; then
  note_new_image "$image"
  registry_login base_registry
  mkdir "$work/context"
  dockerfile_lines >"$work/context/Dockerfile"
  set --
  while IFS= read -r line; do
    set -- "$@" --build-arg "$line"
  done <<ARGUMENTS
$(sed -n 's/^arg\.//p' "$work/input")
ARGUMENTS
  docker build --pull --tag "$image" --label "railyard.build=$build" "$@" "$work/context" \
    >"$work/build.log" 2>&1 </dev/null 9>&- ||
    fail "docker build of $image failed: $(tail -n 20 "$work/build.log")"
  registry_logout base_registry
  changed="$changed image"
fi
if [ "$(cat "$store/pushed" 2>/dev/null)" != "$image $build" ]; then
  run docker push "$image"
  echo "$image $build" >"$store/pushed" || fail "cannot write $store/pushed"
  changed="$changed pushed"
fi
registry_logout registry
report 2
