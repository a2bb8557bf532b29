# shellcheck shell=bash
# Source me: OS_*, NEUTRON_URL, OVS_RUNDIR, OVN_NB_DB, OVN_SB_DB of the running lab.
# NEUTRON_LAB_USER=admin|kuryr|demo picks the account (default kuryr).
if [ -r "${NEUTRON_LAB_DIR:-/var/tmp/neutron-lab}/env" ]; then
    . "${NEUTRON_LAB_DIR:-/var/tmp/neutron-lab}/env"
else
    echo "no neutron lab in ${NEUTRON_LAB_DIR:-/var/tmp/neutron-lab}: run up" >&2
fi
