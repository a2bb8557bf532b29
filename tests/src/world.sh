# A private host: run by `unshare --mount --net --pid --fork`, as the first process of its world.
# The file system is the real one with every change kept aside in /world/upper; /run is empty.
# The world ends when standard input does. bash, because the first process must reap orphans.
set -eu
plugins=$1
read -r pid _ </proc/self/stat
mount -t tmpfs -o mode=755 world /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
mkdir -p world opt/cni/bin
mount --bind /mnt world
mount --bind -o ro "$plugins" opt/cni/bin
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs -o mode=755 run run
mkdir run/netns run/lock
pivot_root . mnt
umount -l /mnt
rm -rf /etc/cni /var/lib/cni /etc/spoke /var/lib/spoke
ip link set lo up
echo "$pid"
read -r _ || true
