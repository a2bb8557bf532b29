# A private host: run by `unshare --mount --net --pid --fork busybox sh`, as the first process of its world.
#
#   world PLUGINS [ROOT [PROGRAMS]]
#
# The file system is ROOT (the real one, if none is given) with every change kept aside in
# /world/upper, and with the programs of PROGRAMS/usr in their places; /run is empty. What cannot
# lie on an overlay, Docker's and containerd's files, lies in /world itself.
# The world ends when standard input does. busybox, whose shell starts no program for what it does itself: it takes a
# third of the time. bash in the end, because the first process must reap orphans.
set -eu
plugins=$1 root=${2:-/} programs=${3:-}
read -r pid _ </proc/self/stat
mount -t tmpfs -o mode=755 world /mnt
mkdir /mnt/upper /mnt/work /mnt/root /mnt/docker /mnt/containerd
# What others have left on this host, or make there meanwhile, is none of the world's: these are absent.
mkdir -p /mnt/upper/etc /mnt/upper/var/lib
for path in etc/cni etc/docker etc/netns etc/spoke var/lib/cni var/lib/spoke; do
    mknod "/mnt/upper/$path" c 0 0
done
mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
cd /mnt/root
mkdir -p world opt/cni/bin
mount -o bind /mnt world
mount -o bind "$plugins" opt/cni/bin
mount -o remount,bind,ro opt/cni/bin
if [ -n "$programs" ]; then
    for program in "$programs"/usr/bin/* "$programs"/usr/sbin/*; do
        place=.${program#"$programs"}
        touch "$place"
        mount -o bind "$program" "$place"
    done
fi
for folder in docker containerd; do
    mkdir -p "var/lib/$folder"
    mount -o bind "/mnt/$folder" "var/lib/$folder"
done
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -o rbind /sys/fs/cgroup sys/fs/cgroup
mount -o rbind /dev dev
mount -t tmpfs -o mode=755 run run
mkdir run/netns run/lock
pivot_root . mnt
umount -l /mnt
ip link set lo up
exec bash -c "echo $pid; read -r _ || true"
