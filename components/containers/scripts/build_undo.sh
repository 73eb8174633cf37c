# shellcheck shell=sh
# shellcheck disable=SC2154 # input.sh and the plan set what is used
# Removes the image from this host if it was built here, and the record. What was pushed stays in
# the registry: others may run it.

cat >"$work/input"
take_lock
image=$(wanted image)
if grep -qxF "$image" "$store/images" 2>/dev/null && [ -n "$(image_id "$image")" ]; then
  run docker image rm "$image"
  changed=image
fi
rm -f "$store/pushed" "$store/images"
rmdir "$store" "${store%/payload}" /var/lib/railyard 2>/dev/null
printf '{"changed":[%s],"left":["%s in the registry"]}\n' "${changed:+\"image\"}" "$image"
