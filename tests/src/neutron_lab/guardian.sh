# Keeps the Neutron that a run of tests shares, as the first process of namespaces of its own, so
# that all of it ends when this does.
#
#   guardian SHARED UP PORT RELEASE
#
# Ends when no process has held a lock on SHARED/users for a while. bash, because the first process must
# reap orphans.
set -eu
shared=$1 up=$2 port=$3 release=$4
quiet=20
mount -t tmpfs -o mode=700 lab /mnt
export NEUTRON_LAB_DIR=/mnt/lab NEUTRON_LAB_NEUTRON_PORT=$port
if ! "$up" --api-only --neutron "$release"; then
    cat /mnt/lab/log/*.log
    touch "$shared/failed"
    exit 1
fi
echo "127.0.0.1:$port" >"$shared/address.new"
mv "$shared/address.new" "$shared/address"
# From here on nothing is started that could keep these.
exec 8<"$shared/starting" 9<"$shared/users"
while sleep 1; do
    flock -x 9 # when the last one goes
    used=$(stat -c %y "$shared/users")
    flock -u 9
    sleep $quiet
    flock -n -x 8 || continue
    if flock -n -x 9 && [ "$used" = "$(stat -c %y "$shared/users")" ]; then
        rm -rf "$shared"
        exit 0
    fi
    flock -u 9
    flock -u 8
done
