# shellcheck shell=sh
# shellcheck disable=SC2154 # state_dir is set by converge.sh and undo.sh
# Docker and the NVIDIA container toolkit. Of /etc/docker/daemon.json two values are ours, and every
# other one stays as it is. dockerd takes both on SIGHUP, so no container ends for them.

DAEMON_CONFIG=/etc/docker/daemon.json
reload_docker=no

docker_config() { # FILE read KEY | FILE write KEY VALUE ORIGINAL
  python3 - "$@" <<'PYTHON'
import json, os, sys
path, verb, key = sys.argv[1:4]
def load(name):
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    return json.loads(text) if text.strip() else {}
try:
    config = load(path)
    runtimes = config.get("runtimes", {})
    nvidia = runtimes.get("nvidia", {})
    if verb == "read":
        value = nvidia.get("path") if key == "runtime" else config.get("default-runtime")
        print("absent" if value is None else value)
        sys.exit(0)
except OSError as error:
    sys.exit(f"cannot read {path} ({error.strerror}): correct it")
except (ValueError, AttributeError) as error:
    sys.exit(f"{path} is no JSON object as dockerd reads it ({error}): correct it")
value, original = sys.argv[4:6]
owner, name = (nvidia, "path") if key == "runtime" else (config, "default-runtime")
owner.pop(name, None)
if value != "absent":
    owner[name] = value
def bare(config):
    runtimes = {k: v for k, v in config.get("runtimes", {}).items() if v or k != "nvidia"}
    rest = {k: v for k, v in config.items() if k != "runtimes"}
    return rest | ({"runtimes": runtimes} if runtimes else {})
if key == "runtime":
    config = bare(config | {"runtimes": runtimes | {"nvidia": nvidia}})
if os.path.exists(original) and bare(load(original)) == bare(config):
    with open(original, encoding="utf-8") as file:
        text = file.read()
elif not config and not os.path.exists(original):
    if os.path.exists(path):
        os.unlink(path)
    sys.exit(0)
else:
    text = json.dumps(config, indent=4) + "\n"
mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
try:
    with open(path + ".railyard", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path + ".railyard", mode)
    os.replace(path + ".railyard", path)
except OSError as error:
    if os.path.exists(path + ".railyard"):
        os.unlink(path + ".railyard")
    sys.exit(f"cannot write {path} ({error.strerror}); it stays as it is: free room in its folder, then run again")
PYTHON
}

refuse_docker() { # before anything is recorded: the words of an error are no previous value
  grep -q -E '^docker\.(default_)?runtime=' "$work/desired" || return 0
  python3 -c '' 2>/dev/null ||
    fail "python3 does not run on this host, and $DAEMON_CONFIG is read and written with it: install" \
      'python3, then run again'
  docker_output=$(docker_config "$DAEMON_CONFIG" read runtime 2>&1) || fail "$docker_output"
}

read_docker() { # KEY
  case $1 in
    docker.engine) if command -v dockerd >/dev/null; then echo present; else echo absent; fi ;;
    toolkit.repository) read_repository toolkit ;;
    toolkit.version) read_toolkit_version ;;
    docker.toolkit | toolkit.runtime)
      if command -v nvidia-container-runtime >/dev/null; then echo present; else echo absent; fi
      ;;
    docker.service)
      command -v dockerd >/dev/null || { echo absent && return; }
      docker_at_boot=$(systemctl is-enabled docker.service 2>/dev/null)
      case $(systemctl is-active docker.service) in # `failed` is nothing that could be put back
        active | activating | reloading) echo "${docker_at_boot%-runtime}/active" ;;
        *) echo "${docker_at_boot%-runtime}/inactive" ;;
      esac
      ;;
    docker.runtime) docker_config "$DAEMON_CONFIG" read runtime 2>&1 ;;
    docker.default_runtime) read_default_runtime ;;
  esac
}

read_default_runtime() { # as stored; and as it is used where that differs: STORED/RUNNING
  docker_stored=$(docker_config "$DAEMON_CONFIG" read default_runtime 2>&1)
  docker_running=$(docker info --format '{{.DefaultRuntime}}' 2>/dev/null)
  case $docker_stored:$docker_running in
    *: | absent:runc | "$docker_running:$docker_running") echo "$docker_stored" ;;
    *) echo "$docker_stored/$docker_running" ;;
  esac
}

write_docker() { # KEY VALUE
  case $1:$2 in
    docker.engine:*) install_package docker.io 'Docker' ;;
    docker.toolkit:* | toolkit.version:*) install_toolkit ;;
    toolkit.repository:*) write_repository toolkit "$2" ;;
    toolkit.runtime:*)
      fail 'nvidia-container-runtime is not on this host, and containers see no GPU without it (K3s does not' \
        'even start: "default runtime nvidia was not found"): install the NVIDIA container toolkit, let' \
        'Railyard install it (host_defaults.toolkit: {kind: host, repository: ...}), or leave it to the GPU' \
        'operator (kind: operator)'
      ;;
    docker.service:*)
      case $2 in enabled/*) run systemctl enable docker.service ;; *) run systemctl disable docker.service ;; esac
      case $2 in */active) run systemctl start docker.service ;; *) run systemctl stop docker.service ;; esac
      case $2 in masked/*) run systemctl mask docker.service ;; esac
      ;;
    docker.default_runtime:*) write_docker_config default_runtime "${2%%/*}" ;; # what was stored
    *) write_docker_config "${1#docker.}" "$2" ;;
  esac
}

read_toolkit_version() { # without an epoch
  toolkit_now=$(dpkg-query -W -f '${Version}' nvidia-container-toolkit 2>/dev/null) ||
    toolkit_now=$(rpm -q --qf '%{VERSION}-%{RELEASE}' nvidia-container-toolkit 2>/dev/null) || toolkit_now=absent
  echo "${toolkit_now#*:}"
}

install_toolkit() { # the pinned version, from its own repository or those of the host
  toolkit_wanted=$(value_of toolkit.version "$work/desired") || toolkit_wanted=''
  use_repository toolkit
  if [ -e "$dnf_source" ]; then
    dnf_install "nvidia-container-toolkit${toolkit_wanted:+-$toolkit_wanted}"
  elif [ -e "$apt_source" ]; then
    export DEBIAN_FRONTEND=noninteractive
    umask 022
    update_repository
    apt_get -y --allow-downgrades install "nvidia-container-toolkit${toolkit_wanted:+=$toolkit_wanted}"
  else
    install_package "nvidia-container-toolkit${toolkit_wanted:+=$toolkit_wanted}" 'the NVIDIA container toolkit'
  fi
}

install_package() { # NAME WORDS
  command -v apt-get >/dev/null ||
    fail "$2 is not on this host and there is no apt-get here: install it by hand, then run again"
  umask 022 # packages expect it; what follows sets its own modes
  export DEBIAN_FRONTEND=noninteractive
  run apt-get -o DPkg::Lock::Timeout=600 -y update
  package_output=$(apt-get -o DPkg::Lock::Timeout=600 -y install "$1" 2>&1) || {
    packages_came "apt-get install $1" "$package_output"
    fail "apt-get cannot install $1: $(printf '%s\n' "$package_output" | tail -n 3)." \
      "Name a repository that has $2 in /etc/apt/sources.list.d, or install it by hand"
  }
}

write_docker_config() { # KEY VALUE
  if [ ! -e "$state_dir/daemon.seen" ]; then # once: what was here before our first change
    [ ! -e "$DAEMON_CONFIG" ] || cp -p "$DAEMON_CONFIG" "$state_dir/daemon.orig" ||
      fail "cannot keep a copy of $DAEMON_CONFIG"
    if [ -d "${DAEMON_CONFIG%/*}" ]; then echo kept; else echo made; fi >"$state_dir/daemon.seen"
  fi
  [ -d "${DAEMON_CONFIG%/*}" ] || mkdir -m 0755 "${DAEMON_CONFIG%/*}"
  owe 'reload docker'
  docker_output=$(docker_config "$DAEMON_CONFIG" write "$1" "$2" "$state_dir/daemon.orig" 2>&1) ||
    fail "${docker_output:-writing $DAEMON_CONFIG failed}"
  reload_docker=yes
}

apply_docker_config() { # dockerd reads the file on SIGHUP, and answers as before until it has
  [ "$reload_docker" = yes ] || return 0
  ! systemctl is-active --quiet docker.service || reload_dockerd
  reload_docker=no
  owe_no_more 'reload docker'
}

reload_dockerd() {
  run systemctl reload docker.service
  waited_s=0
  while [ "$waited_s" -lt 10 ]; do
    case $(read_default_runtime) in */*) ;; *) return 0 ;; esac
    sleep 1
    waited_s=$((waited_s + 1))
  done
}

stop_unused_docker() { # it came with a package that we installed; what runs in it may be another's
  [ -z "$(docker ps --all --quiet 2>/dev/null)" ] || return 0
  for docker_unit in docker.socket docker.service; do
    systemctl is-enabled --quiet "$docker_unit" 2>/dev/null || continue
    run systemctl disable "$docker_unit"
    run systemctl stop "$docker_unit"
  done
}

forget_docker() { # after an undo
  [ "$(cat "$state_dir/daemon.seen" 2>/dev/null)" != made ] || rmdir "${DAEMON_CONFIG%/*}" 2>/dev/null
  rm -f "$state_dir/daemon.seen" "$state_dir/daemon.orig"
}
