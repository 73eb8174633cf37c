# shellcheck shell=sh
# shellcheck disable=SC2154 # input.sh and the plan set what is used
# How each setting is written.

differs() { # KEY : it is wanted, and is something else
  [ -n "$(wanted "$1")" ] && [ "$(read_key "$1")" != "$(wanted "$1")" ]
}

put_file() { # FILE "MODE OWNER" : stdin is the content; a link is not followed
  cat >"$1.railyard" || fail "cannot write $1.railyard"
  set_mode "$1.railyard" "$2"
  run mv -f "$1.railyard" "$1"
}

set_mode() { # FILE "MODE OWNER"
  run chmod "${2%% *}" "$1"
  run chown "${2#* }:$(id -gn "${2#* }")" "$1"
}

write_folders() {
  for key in folder.host folder.container; do
    differs "$key" || continue
    case $key in *.host) folder=$ssh_dir ;; *) folder=$inner_dir ;; esac
    [ ! -L "$folder" ] || fail "$folder is a link; keys are only written to a folder of their own"
    mkdir -p "$folder" || fail "cannot create $folder"
    set_mode "$folder" "$(wanted "$key")"
    changed="$changed $key"
  done
}

write_keys() {
  for key in key.host key.host_public key.container key.container_public; do
    differs "$key" || continue
    [ -n "$(stored_key "$key")" ] || fail "$store/keys holds no $key"
    stored_key "$key" | put_file "$(place_of "$key")" "$(wanted "$key")"
    changed="$changed $key"
  done
}

read_peers() { # the list lies beside the tools, under its digest
  peers=$(wanted peers)
  cat "$tools/$peers/tool" >"$work/peers" 2>/dev/null
  case $(sha256sum <"$work/peers") in "$peers "*) ;; *)
    fail "the list of peers $tools/$peers/tool is missing, altered or cut short: run pulumi up with" \
      'railyard:observe=always, which sends it again' ;;
  esac
}

lines_of() { # NAME : the text of the list, with the own address in it
  sed -n "s/^$1 //p" "$work/peers" | sed "s/^  BindAddress @own@\$/  BindAddress $(wanted "$1.bind")/"
}

text_differs() { # NAME : its text is not the one of the list
  lines_of "$1" >"$work/text"
  text_of "$1.lines" >"$work/present"
  ! cmp -s "$work/text" "$work/present"
}

write_texts() {
  if text_differs host_config; then
    { block_begin
      lines_of host_config
      block_end; } >"$work/block"
    put_block config first
    changed="$changed host_config"
  fi
  if text_differs container_config; then
    lines_of container_config | put_file "$inner_dir/config" '600 root'
    changed="$changed container_config"
  fi
  if text_differs known_hosts; then
    lines_of known_hosts | put_file "$inner_dir/known_hosts" '600 root'
    lines_of known_hosts | put_file "$ssh_dir/known_hosts_railyard" "644 $login"
    changed="$changed known_hosts"
  fi
  if differs mpicont.digest || differs mpicont.mode; then
    mpicont_lines | sed "s/^container=mpicont #/container=$name #/" |
      put_file "$ssh_dir/mpicont.sh" "$(wanted mpicont.mode)"
    changed="$changed mpicont.digest"
  fi
}

put_block() { # config|authorized_keys first|last : with $work/block as our part
  block_file=$ssh_dir/$1
  [ ! -L "$block_file" ] || fail "$block_file is a link; it is not followed"
  : >"$work/rest"
  if [ -e "$block_file" ]; then
    rest_of "$block_file" >"$work/rest" || exit 1
  fi
  {
    [ "$2" = last ] || cat "$work/block"
    cat "$work/rest"
    if [ "$2" = last ]; then
      [ -z "$(tail -c 1 "$work/rest")" ] || echo
      cat "$work/block"
    fi
  } >"$work/whole"
  if [ -e "$block_file" ]; then
    cat "$work/whole" >"$block_file" || fail "cannot write $block_file"
  else
    case $1 in config) put_mode=644 ;; *) put_mode=600 ;; esac
    put_file "$block_file" "$put_mode $login" <"$work/whole"
  fi
}

write_authorized() {
  if ! differs authorized_keys.host.digest && ! differs authorized_keys.container.digest; then return 0; fi
  { block_begin
    for key in host container; do
      echo "$(lines_of "authorized_keys.$key") $(stored "$key.public")"
    done
    block_end; } >"$work/block"
  put_block authorized_keys last
  changed="$changed authorized_keys.host"
}

pull_image() { # so that $image is here, and is the planned build
  build=$(wanted container.build)
  if [ -n "$(image_id "$image")" ]; then
    [ -n "$build" ] || return 0
    [ "$(label_of_image "$image")" != "$build" ] || return 0
  fi
  note_new_image "$image"
  registry_login registry
  run docker pull "$image"
  registry_logout registry
  found=$(label_of_image "$image")
  [ -z "$build" ] || [ "$found" = "$build" ] ||
    fail "$image of the registry is the build '$found', want '$build': somebody else pushed it"
}

converge_container() {
  image=$(wanted container.image)
  pull_image
  owner=$(inspect '{{index .Config.Labels "railyard.stack"}}') || owner=none
  case $owner in
    none | "$stack") ;;
    *) fail "a container $name runs here that this stack did not start: docker rm -f $name first" ;;
  esac
  remove_renamed
  if [ "$owner" = "$stack" ]; then
    differs container.image || differs container.flags || differs container.build || {
      if differs container.state; then
        run docker start "$name"
        changed="$changed container.state"
      fi
      return 0
    }
    run docker rm -f "$name"
  fi
  start_container
}

remove_renamed() { # the container that this stack ran under another name
  old=$(cat "$store/container" 2>/dev/null)
  if [ -n "$old" ] && [ "$old" != "$name" ]; then
    docker rm -f "$old" >/dev/null 2>&1
  fi
  echo "$name" >"$store/container" || fail "cannot write $store/container"
}

start_container() {
  flags=$(wanted container.flags | sed "s# ~/# $home/#g")
  set -f
  # shellcheck disable=SC2086 # one word a flag; the plan's own text
  started=$(docker run --detach $flags --label "railyard.stack=$stack" \
    --label "railyard.flags=$(wanted container.flags)" "$image" sleep infinity 2>&1 9>&-) ||
    fail "docker run of $image failed: $started"
  set +f
  changed="$changed container.state"
}
