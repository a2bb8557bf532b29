# shellcheck shell=bash disable=SC2034
# Sourced by the other scripts: settings, paths, daemons. Needs bash.
LAB_SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# ---- settings, every one overridable from the environment -----------------
: "${NEUTRON_LAB_DIR:=/var/tmp/neutron-lab}"  # all state; keep it short (unix sockets: 108 bytes)
: "${NEUTRON_LAB_KEYSTONE_PORT:=15000}"
: "${NEUTRON_LAB_NEUTRON_PORT:=19696}"
: "${NEUTRON_LAB_HOST:=$(hostname)}"          # binding:host_id of this machine
: "${NEUTRON_LAB_BRIDGE:=br-int}"             # OVN's integration bridge
: "${NEUTRON_LAB_PASSWORD:=neutron-lab}"
: "${NEUTRON_LAB_TOKEN_TTL:=86400}"           # seconds; a small one tests re-authentication
: "${NEUTRON_LAB_MTU:=1500}"                  # of the underlay; geneve networks get 58 bytes less
: "${NEUTRON_LAB_VENV:=$LAB_SRC/../../.cache/peers/neutron-pypi}" # the newest Neutron: scripts/peers neutron-pypi
: "${KURYR_VENV:=$LAB_SRC/../../.cache/peers/kuryr-pypi}"         # kuryr-libnetwork: scripts/peers kuryr-pypi

LAB=$NEUTRON_LAB_DIR
RUN=$LAB/run DB=$LAB/db LOG=$LAB/log ETC=$LAB/etc
PY=/usr/bin/python3                           # Debian's, never one from PATH
export OVS_RUNDIR=$RUN OVS_DBDIR=$DB OVS_LOGDIR=$LOG OVN_RUNDIR=$RUN OVN_DBDIR=$DB OVN_LOGDIR=$LOG
export OVN_NB_DB=unix:$RUN/ovnnb_db.sock OVN_SB_DB=unix:$RUN/ovnsb_db.sock
export no_proxy="${no_proxy:+$no_proxy,}127.0.0.1,localhost"
export PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=$LAB/state # nothing outside of the lab's directory

say() { printf '[neutron-lab %6ss] %s\n' "$(elapsed)" "$*" >&2; }
die() { say "error: $*"; exit 1; }
now() { date +%s.%N; }
T0=${T0:-$(now)}
elapsed() { awk -v a="$T0" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }

# The pid of a live daemon of this lab, or nothing. A pid counts only while its command line names
# the lab's directory: a pid that was given again is never taken for ours.
pid_of() {
    local file=$RUN/$1.pid pid
    [ -s "$file" ] || return 1
    pid=$(cat "$file" 2>/dev/null) || return 1
    { tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF "$LAB/"; } 2>/dev/null && echo "$pid"
}
alive() { pid_of "$1" >/dev/null; }

# start NAME COMMAND...: a program that stays in the foreground, as a daemon in a session of its own.
start() {
    local name=$1
    shift
    alive "$name" && return 0
    setsid "$@" >>"$LOG/$name.log" 2>&1 </dev/null &
    echo $! >"$RUN/$name.pid"
}

# wait_http NAME URL SECONDS
wait_http() {
    local name=$1 url=$2 n=$(($3 * 10))
    while [ $n -gt 0 ]; do
        "$PY" -S - "$url" <<'PYTHON' 2>/dev/null && return 0
import sys, urllib.error, urllib.request
try:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=5)
except urllib.error.HTTPError as e:
    sys.exit(0 if e.code < 500 else 1)
PYTHON
        alive "$name" || { tail -20 "$LOG/$name.log" >&2; die "$name died, see $LOG/$name.log"; }
        sleep 0.1
        n=$((n - 1))
    done
    die "$name did not answer on $url, see $LOG/$name.log"
}

# stop NAME [SECONDS]: TERM, wait, then KILL the whole session. A zombie counts as gone.
stop() {
    local name=$1 pid n=$((${2:-10} * 20))
    pid=$(pid_of "$name") || { rm -f "$RUN/$name.pid"; return 0; }
    kill "$pid" 2>/dev/null
    while [ $n -gt 0 ] && [ "$(pid_of "$name")" = "$pid" ]; do
        sleep 0.05
        n=$((n - 1))
    done
    if [ "$(pid_of "$name")" = "$pid" ]; then
        kill -KILL -- "-$pid" 2>/dev/null || kill -KILL "$pid" 2>/dev/null
    fi
    rm -f "$RUN/$name.pid"
}
