#!/bin/bash
# The first process of a node of `make lab-pods`: makes the node's own file system, then waits.
#
# Runs in new mount, network, UTS and PID namespaces. All it mounts goes away with them.
#   node_root.sh NAME TREE PROGRAMS CGROUP FOLDER
# NAME      the node's name
# TREE      a Debian tree; it is only read
# PROGRAMS  the folder of the built programs
# CGROUP    the node's place below each hierarchy of /sys/fs/cgroup
# FOLDER    of the node, shared with the lab: certificates, configurations, and `disk`, which is in
#           memory and stays when the node's power is cut
set -eu
name=$1 tree=$2 programs=$3 cgroup=$4 folder=$5

hostname "$name"
mount --make-rprivate /

# The overlay's upper side may lie on no overlay, and what containerd writes neither: both are on the
# disk, which is a tmpfs.
disk=$folder/disk
mkdir -p "$disk/upper" "$disk/work" "$disk/root" "$disk/data"
root=$disk/root
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$disk/upper,workdir=$disk/work" "$root"

mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "kmsg 1 11" "tty 5 0"; do
  # shellcheck disable=SC2086 # name, major and minor are words
  set -- $device
  mknod -m 666 "$root/dev/$1" c "$2" "$3"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=755 run "$root/run"

# containerd's and kubelet's data: an overlay on an overlay is refused.
for place in var/lib/rancher var/lib/kubelet var/lib/cni var/log; do
  mkdir -p "$disk/data/$place" "$root/$place"
  mount --bind "$disk/data/$place" "$root/$place"
done
mkdir -p "$root/opt/lab/bin" "$root/opt/lab/node"
mount --bind -o ro "$programs" "$root/opt/lab/bin"
mount --bind "$folder" "$root/opt/lab/node"

# kubelet writes these three of the whole machine. They get its values here, and keep theirs there.
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
  file=$disk/data/${setting##*/}
  echo "${setting#*=}" >"$file"
  mount --bind "$file" "$root/proc/sys/${setting%%=*}"
done
cat /proc/sys/kernel/random/uuid >"$disk/data/boot_id"
mount --bind "$disk/data/boot_id" "$root/proc/sys/kernel/random/boot_id"
echo "$cgroup" >"$root/run/cgroup"

cd "$root"
mkdir -p old
pivot_root . old
umount -l /old
rmdir /old
# Multus' folder of programs is mounted into pods in both directions.
mount --make-rshared /
: >/run/ready
# The first process takes over what containerd's shims leave behind; `wait` buries it.
sleep infinity &
wait "$!"
