# shellcheck shell=bash
# Sourced by up: what is written into the lab's etc, and what clients need.

keystone_conf() {
    cat >"$ETC/keystone.conf" <<CONF
[DEFAULT]
use_stderr = true
[database]
connection = sqlite:///$DB/keystone.sqlite?timeout=30
[token]
provider = fernet
expiration = $NEUTRON_LAB_TOKEN_TTL
[fernet_tokens]
key_repository = $ETC/fernet
[fernet_receipts]
key_repository = $ETC/fernet
[credential]
key_repository = $ETC/credential
[identity]
password_hash_rounds = 4
[oslo_policy]
enforce_scope = false
enforce_new_defaults = false
CONF
}

neutron_conf() {
    local workers=0 drivers plugins paste=$LAB_SRC/lib/api-paste.ini tenant=tenant_network_types
    if [ "$MODE" = full ]; then
        workers=${NEUTRON_LAB_API_WORKERS:-1}
        drivers=ovn plugins=ovn-router,trunk,qos,segments,port_forwarding
        # Neutron over OVN opens a second transaction inside a first: sqlite, with one writer a
        # file, locks itself out there (trunks, deletion of ports). MariaDB does not.
        NEUTRON_DB="mysql+pymysql://root@localhost/neutron?unix_socket=$RUN/mariadb.sock"
    else
        # 'openvswitch' is there because the trunk plugin wants a driver that knows trunks.
        drivers=lab,openvswitch plugins=router,trunk,qos
        NEUTRON_DB="sqlite:///$DB/neutron.sqlite?timeout=$([ "$RELEASE" = debian ] && echo 0 || echo 30)"
    fi
    if [ "$RELEASE" = pypi ]; then
        tenant=project_network_types
        [ "$AUTH" = noauth ] || paste=$NEUTRON_LAB_VENV/etc/neutron/api-paste.ini
    fi
    cat >"$ETC/neutron.conf" <<CONF
[DEFAULT]
bind_host = 127.0.0.1
bind_port = $NEUTRON_LAB_NEUTRON_PORT
auth_strategy = $AUTH
core_plugin = ml2
service_plugins = $plugins
api_paste_config = $paste
state_path = $LAB/state
transport_url = fake://
api_workers = $workers
rpc_workers = 0
rpc_state_report_workers = 0
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
dns_domain = lab.internal.
global_physnet_mtu = $NEUTRON_LAB_MTU
vlan_transparent = false
allow_automatic_l3agent_failover = false
use_stderr = true
[database]
connection = $NEUTRON_DB
[oslo_concurrency]
lock_path = $LAB/state/lock
[oslo_policy]
enforce_scope = false
enforce_new_defaults = false
policy_file = $LAB_SRC/lib/policy.yaml
[quotas]
default_quota = -1
quota_network = -1
quota_subnet = -1
quota_port = -1
quota_subnetpool = -1
quota_router = -1
quota_floatingip = -1
quota_security_group = -1
quota_security_group_rule = -1
quota_trunk = -1
[keystone_authtoken]
www_authenticate_uri = $KEYSTONE
auth_url = $KEYSTONE
auth_type = password
username = neutron
password = $NEUTRON_LAB_PASSWORD
project_name = service
user_domain_id = default
project_domain_id = default
region_name = RegionOne
service_token_roles_required = true
service_token_roles = service
[ml2]
mechanism_drivers = $drivers
type_drivers = local,flat,vlan,vxlan,geneve
$tenant = geneve
extension_drivers = port_security,qos,subnet_dns_publish_fixed_ip
path_mtu = $NEUTRON_LAB_MTU
[ml2_type_geneve]
vni_ranges = 1:65535
max_header_size = 38
[ml2_type_vxlan]
vni_ranges = 1:65535
[ml2_type_flat]
flat_networks = *
[ml2_type_vlan]
network_vlan_ranges = physnet1:100:199
[securitygroup]
enable_security_group = true
[ovn]
ovn_nb_connection = unix:$RUN/ovnnb_db.sock
ovn_sb_connection = unix:$RUN/ovnsb_db.sock
ovn_metadata_enabled = false
ovn_emit_need_to_frag = false
CONF
}

# What env.sh reads.
client_env() {
    echo "export NEUTRON_LAB_TOKEN_TTL=$NEUTRON_LAB_TOKEN_TTL NEUTRON_LAB_DIR=$LAB NEUTRON_LAB_MODE=$MODE NEUTRON_LAB_AUTH=$AUTH NEUTRON_LAB_RELEASE=$RELEASE"
    echo "export NEUTRON_URL=$NEUTRON"
    if [ "$MODE" = full ]; then
        echo "export NEUTRON_LAB_HOST=$NEUTRON_LAB_HOST NEUTRON_LAB_BRIDGE=$NEUTRON_LAB_BRIDGE"
        echo "export OVS_RUNDIR=$RUN OVN_RUNDIR=$RUN OVN_NB_DB=$OVN_NB_DB OVN_SB_DB=$OVN_SB_DB"
    else
        echo "export NEUTRON_LAB_HOST=ovs-host"
    fi
    if [ "$AUTH" = keystone ]; then
        echo "export OS_AUTH_TYPE=password OS_AUTH_URL=$KEYSTONE OS_IDENTITY_API_VERSION=3 OS_REGION_NAME=RegionOne"
        echo "export OS_USERNAME=\${NEUTRON_LAB_USER:-kuryr} OS_PROJECT_NAME=\${NEUTRON_LAB_USER:-kuryr} OS_PASSWORD=$NEUTRON_LAB_PASSWORD"
        echo "export OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default OS_INTERFACE=public"
    else
        echo "unset OS_AUTH_URL OS_USERNAME OS_PASSWORD OS_PROJECT_NAME OS_USER_DOMAIN_ID OS_PROJECT_DOMAIN_ID"
        echo "export OS_AUTH_TYPE=none OS_ENDPOINT=$NEUTRON"
    fi
}

clouds_yaml() {
    local user
    echo "clouds:"
    for user in kuryr demo admin; do
        cat <<CONF
  lab-$user:
    auth_type: password
    auth: {auth_url: "$KEYSTONE", username: $user, password: "$NEUTRON_LAB_PASSWORD", project_name: $user, user_domain_id: default, project_domain_id: default}
    region_name: RegionOne
    identity_api_version: 3
CONF
    done
}
