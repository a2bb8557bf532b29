# shellcheck shell=bash
# Sourced by up: Open vSwitch in userspace, and OVN.

ovs_daemon() { # NAME COMMAND...
    local name=$1
    shift
    alive "$name" && return 0
    "$@" --pidfile="$RUN/$name.pid" --log-file="$LOG/$name.log" --detach --no-chdir -vconsole:off \
        </dev/null >>"$LOG/$name.log" 2>&1 || { tail -5 "$LOG/$name.log" >&2; die "$name did not start"; }
}

dataplane() {
    local db
    [ -c /dev/net/tun ] || { mkdir -p /dev/net && mknod /dev/net/tun c 10 200; }
    [ -e "$DB/conf.db" ] || ovsdb-tool create "$DB/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    ovs_daemon ovsdb-server ovsdb-server "$DB/conf.db" --remote=punix:"$RUN/db.sock" --unixctl="$RUN/ovsdb-server.ctl"
    for db in nb sb; do
        [ -e "$DB/ovn$db.db" ] || ovsdb-tool create "$DB/ovn$db.db" /usr/share/ovn/ovn-$db.ovsschema
        ovs_daemon ovn${db}_db ovsdb-server "$DB/ovn$db.db" --remote=punix:"$RUN/ovn${db}_db.sock" --unixctl="$RUN/ovn${db}_db.ctl"
    done
    ovs-vsctl --no-wait -- init -- set Open_vSwitch . \
        external-ids:system-id="$NEUTRON_LAB_HOST" external-ids:hostname="$NEUTRON_LAB_HOST" \
        external-ids:ovn-remote="$OVN_SB_DB" external-ids:ovn-bridge="$NEUTRON_LAB_BRIDGE" \
        external-ids:ovn-bridge-datapath-type=netdev external-ids:ovn-monitor-all=true \
        external-ids:ovn-encap-type=geneve external-ids:ovn-encap-ip=127.0.0.1 \
        external-ids:ovn-openflow-probe-interval=0 external-ids:ovn-remote-probe-interval=0
    ovs_daemon ovs-vswitchd ovs-vswitchd "unix:$RUN/db.sock" --unixctl="$RUN/ovs-vswitchd.ctl"
    ovs-vsctl --timeout=20 --may-exist add-br "$NEUTRON_LAB_BRIDGE" -- \
        set bridge "$NEUTRON_LAB_BRIDGE" datapath_type=netdev fail-mode=secure other-config:disable-in-band=true
    ovn-nbctl --timeout=20 --no-wait -- init
    ovn-sbctl --timeout=20 init
    ovs_daemon ovn-northd ovn-northd --ovnnb-db="$OVN_NB_DB" --ovnsb-db="$OVN_SB_DB" --unixctl="$RUN/ovn-northd.ctl"
    ovs_daemon ovn-controller ovn-controller "unix:$RUN/db.sock"
}
