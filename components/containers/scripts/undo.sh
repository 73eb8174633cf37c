# shellcheck shell=sh
# shellcheck disable=SC2154 # input.sh and the plan set what is used
# Removes the container, the image if it came with us, and the keys; gives ~/.ssh back as it was.
# stdin: the state that was applied; it is not needed.

drop() { # KEY FILE... : what is ours alone
  drop_key=$1
  shift
  for file in "$@"; do
    [ -e "$file" ] || continue
    run rm -f "$file"
    case " $changed " in *" $drop_key "*) ;; *) changed="$changed $drop_key" ;; esac
  done
}

restore_file() { # config|authorized_keys : our part goes; the rest stays, byte for byte
  file=$ssh_dir/$1
  [ -e "$file" ] || return 0
  [ -n "$(block_of "$file")" ] || return 0
  rest_of "$file" >"$work/rest" || exit 1
  if [ -e "$store/$1.orig" ] && [ "$(cat "$work/rest")" = "$(cat "$store/$1.orig")" ]; then
    cat "$store/$1.orig" >"$file" || fail "cannot write $file"
  elif [ ! -e "$store/$1.orig" ] && [ ! -s "$work/rest" ]; then
    run rm -f "$file"
  else
    cat "$work/rest" >"$file" || fail "cannot write $file"
  fi
  changed="$changed $1"
}

remove_container() {
  [ "$(inspect '{{index .Config.Labels "railyard.stack"}}')" = "$stack" ] || return 0
  run docker rm -f "$name"
  changed="$changed container"
}

remove_images() { # one that another container uses stays, and is named
  [ -e "$store/images" ] || return 0
  while IFS= read -r image <&8; do
    [ -n "$(image_id "$image")" ] || continue
    if docker image rm "$image" >"$work/rm" 2>&1; then
      changed="$changed image"
    else
      left="$left${left:+,}\"image\""
    fi
  done 8<"$store/images"
}

cat >/dev/null
left=''
take_lock
if [ ! -e "$store/baseline" ]; then
  printf '{"changed":[],"left":[],"note":"no baseline: nothing was changed here, or it is undone"}\n'
  exit 0
fi
recorded=$(sed -n 's/^login=//p' "$store/baseline")
login=${recorded:-$login}
find_home
name=$(cat "$store/container" 2>/dev/null || echo "$name")
remove_container
remove_images
for key in host container; do
  drop "key.$key" "$(place_of "key.$key")" "$(place_of "key.${key}_public")"
done
drop known_hosts "$ssh_dir/known_hosts_railyard" "$inner_dir/known_hosts"
drop container_config "$inner_dir/config"
drop mpicont "$ssh_dir/mpicont.sh"
rm -f "$ssh_dir"/*.railyard "$inner_dir"/*.railyard
restore_file config
restore_file authorized_keys
if [ -d "$inner_dir" ]; then
  rmdir "$inner_dir" 2>/dev/null || left="$left${left:+,}\"folder.container\""
fi
ssh_mode=$(sed -n 's/^ssh_dir=//p' "$store/baseline")
if [ -z "$ssh_mode" ]; then
  rmdir "$ssh_dir" 2>/dev/null || left="$left${left:+,}\"folder.host\""
else
  run chmod "${ssh_mode%% *}" "$ssh_dir"
  run chown "${ssh_mode#* }" "$ssh_dir"
fi
rm -f "$store/baseline" "$store/baseline.new" "$store/config.orig" "$store/authorized_keys.orig" \
  "$store/container" "$store/images"
rmdir "$store" "${store%/payload}" /var/lib/railyard 2>/dev/null
print_changed ",\"left\":[$left]"
