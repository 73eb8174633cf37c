#!/bin/sh
# Installs K3s in the lab the way the real get.k3s.io script does (kubernetes_stack.md 2.2):
# the same variables, units, file names, restart rule and uninstall scripts. It never downloads:
# INSTALL_K3S_SKIP_DOWNLOAD=true (or =binary) and a binary in place are required.
set -eu

info() { echo "[INFO]  $*"; }
fatal() {
    echo "[ERROR]  $*" >&2
    exit 1
}

root="${RAILYARD_HOST_ROOT:-}"

setup_env() {
    command_name="${1:-}"
    case "$command_name" in
        '' | -*)
            if [ -z "${K3S_URL:-}" ]; then
                command_name=server
            else
                if [ -z "${K3S_TOKEN:-}" ] && [ -z "${K3S_TOKEN_FILE:-}" ]; then
                    fatal "Defaulted k3s exec command to 'agent' because K3S_URL is defined, but K3S_TOKEN or K3S_TOKEN_FILE is not defined."
                fi
                command_name=agent
            fi
            ;;
        *) shift ;;
    esac
    case "${K3S_URL:-https://}" in
        https://*) ;;
        *) fatal "Only https:// URLs are supported for K3S_URL (have $K3S_URL)" ;;
    esac
    exec_line="$command_name"
    for word in "$@"; do
        exec_line="$exec_line '$word'"
    done
    name=k3s
    if [ -n "${INSTALL_K3S_NAME:-}" ]; then
        name="k3s-$INSTALL_K3S_NAME"
    elif [ "$command_name" = agent ]; then
        name=k3s-agent
    fi
    bin_dir="${INSTALL_K3S_BIN_DIR:-/usr/local/bin}"
    systemd_dir="${INSTALL_K3S_SYSTEMD_DIR:-/etc/systemd/system}"
    unit_type="${INSTALL_K3S_TYPE:-notify}"
    unit="$root$systemd_dir/$name.service"
    env_file="$root$systemd_dir/$name.service.env"
    uninstall="$root$bin_dir/$name-uninstall.sh"
    killall="$root$bin_dir/k3s-killall.sh"
}

installed_hashes() {
    sha256sum "$root$bin_dir/k3s" "$unit" "$env_file" 2>/dev/null || true
}

check_binary() {
    case "${INSTALL_K3S_SKIP_DOWNLOAD:-}" in
        true | binary) ;;
        *) fatal "the lab downloads nothing: set INSTALL_K3S_SKIP_DOWNLOAD=true and put the k3s binary at $bin_dir/k3s" ;;
    esac
    [ -x "$root$bin_dir/k3s" ] || fatal "Executable k3s binary not found at $bin_dir/k3s"
}

create_symlinks() {
    [ "${INSTALL_K3S_SYMLINK:-}" = skip ] && return 0
    for tool in kubectl crictl; do
        link="$root$bin_dir/$tool"
        if [ -e "$link" ] && [ "${INSTALL_K3S_SYMLINK:-}" != force ]; then
            info "Skipping $bin_dir/$tool symlink to k3s, already exists"
        else
            info "Creating $bin_dir/$tool symlink to k3s"
            ln -sf k3s "$link"
        fi
    done
}

create_killall() {
    info "Creating killall script $bin_dir/k3s-killall.sh"
    cat >"$killall" <<'KILLALL'
#!/bin/sh
[ "$(id -u)" -eq 0 ] || exec sudo "$0" "$@"
for unit in /etc/systemd/system/k3s*.service; do
    [ -s "$unit" ] && systemctl stop "$(basename "$unit")"
done
rm -rf /var/lib/cni
exit 0
KILLALL
    chmod 755 "$killall"
}

create_uninstall() {
    info "Creating uninstall script $bin_dir/$name-uninstall.sh"
    cat >"$uninstall" <<UNINSTALL
#!/bin/sh
set -x
[ "\$(id -u)" -eq 0 ] || exec sudo "\$0" "\$@"
$bin_dir/k3s-killall.sh
systemctl disable $name
systemctl reset-failed $name
systemctl daemon-reload
rm -f $systemd_dir/$name.service
rm -f $systemd_dir/$name.service.env
remove_uninstall() { rm -f $bin_dir/$name-uninstall.sh; }
trap remove_uninstall EXIT
if (ls $systemd_dir/k3s*.service) >/dev/null 2>&1; then
    set +x
    echo 'Additional k3s services installed, skipping uninstall of k3s'
    exit
fi
for cmd in kubectl crictl; do
    if [ -L $bin_dir/\$cmd ]; then rm -f $bin_dir/\$cmd; fi
done
rm -rf /etc/rancher/k3s
rm -rf /run/k3s
rm -rf /run/flannel
rm -rf /var/lib/rancher/k3s
rm -rf /var/lib/kubelet
rm -f $bin_dir/k3s
rm -f $bin_dir/k3s-killall.sh
UNINSTALL
    chmod 755 "$uninstall"
}

create_env_file() {
    info "env: Creating environment file $systemd_dir/$name.service.env"
    umask_before=$(umask)
    umask 0377
    rm -f "$env_file.new"
    env | grep -E '^(K3S_|CONTAINERD_|[A-Za-z_]*_PROXY=)' | sort >"$env_file.new" || true
    chmod 0600 "$env_file.new"
    umask "$umask_before"
    mv -f "$env_file.new" "$env_file"
}

create_unit() {
    info "systemd: Creating service file $systemd_dir/$name.service"
    cat >"$unit" <<UNIT
[Unit]
Description=Lightweight Kubernetes
Documentation=https://k3s.io
Wants=network-online.target
After=network-online.target

[Install]
WantedBy=multi-user.target

[Service]
Type=$unit_type
EnvironmentFile=-/etc/default/%N
EnvironmentFile=-/etc/sysconfig/%N
EnvironmentFile=-$systemd_dir/$name.service.env
KillMode=process
Delegate=yes
User=root
# Having non-zero Limit*s causes performance problems due to accounting overhead
# in the kernel. We recommend using cgroups to do container-local accounting.
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStart=$bin_dir/k3s $exec_line
UNIT
    chmod 0644 "$unit"
}

enable_and_start() {
    [ "${INSTALL_K3S_SKIP_ENABLE:-}" = true ] && return 0
    info "systemd: Enabling $name unit"
    systemctl enable "$name"
    systemctl daemon-reload
    [ "${INSTALL_K3S_SKIP_START:-}" = true ] && return 0
    if [ "$hashes_before" = "$(installed_hashes)" ] && [ "${INSTALL_K3S_FORCE_RESTART:-}" != true ]; then
        info 'No change detected so skipping service start'
        return 0
    fi
    info "systemd: Starting $name"
    systemctl restart "$name"
}

# INSTALL_K3S_EXEC is split into words on purpose, as the real script does.
# shellcheck disable=SC2086
setup_env ${INSTALL_K3S_EXEC:-} "$@"
check_binary
hashes_before=$(installed_hashes)
create_symlinks
create_killall
create_uninstall
create_env_file
create_unit
enable_and_start
