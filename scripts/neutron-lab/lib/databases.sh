# shellcheck shell=bash
# Sourced by up: databases of Keystone and Neutron.

# Two keys each, as `keystone-manage *_setup` would write them.
fernet_keys() {
    local folder key
    for folder in "$ETC/fernet" "$ETC/credential"; do
        mkdir -p "$folder"
        chmod 700 "$folder"
        for key in 0 1; do
            [ -s "$folder/$key" ] || (umask 077; head -c32 /dev/urandom | base64 -w0 | tr '+/' '-_' >"$folder/$key")
        done
    done
}

keystone_db() {
    [ -e "$DB/keystone.ready" ] && return 0
    rm -f "$DB"/keystone.sqlite*
    fernet_keys
    local manage=("$PY" -W ignore -c 'import sys; from keystone.cmd.manage import main; main()'
        --config-file "$ETC/keystone.conf")
    "${manage[@]}" db_sync
    "$PY" -S -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA journal_mode=WAL")' "$DB/keystone.sqlite"
    "${manage[@]}" bootstrap \
        --bootstrap-username admin --bootstrap-project-name admin --bootstrap-role-name admin \
        --bootstrap-password "$NEUTRON_LAB_PASSWORD" --bootstrap-service-name keystone \
        --bootstrap-region-id RegionOne --bootstrap-admin-url "$KEYSTONE" \
        --bootstrap-public-url "$KEYSTONE" --bootstrap-internal-url "$KEYSTONE"
    touch "$DB/keystone.ready"
}

# No system tables, no accounts: the socket's directory is root's own.
mariadb() {
    alive mariadb && return 0
    mkdir -p "$DB/mariadb" "$LAB/state/tmp"
    rm -f "$RUN/mariadb.sock"
    start mariadb mariadbd --no-defaults --user=root --datadir="$DB/mariadb" --tmpdir="$LAB/state/tmp" \
        --socket="$RUN/mariadb.sock" --pid-file="$RUN/mariadb.pid" --skip-networking --skip-grant-tables \
        --skip-log-bin --performance-schema=OFF --innodb-buffer-pool-size=32M --innodb-log-file-size=16M \
        --innodb-file-per-table=0 --innodb-data-file-path=ibdata1:8M:autoextend --innodb-autoextend-increment=8 \
        --innodb-undo-tablespaces=0 --innodb-temp-data-file-path=ibtmp1:4M:autoextend --innodb-flush-method=nosync \
        --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --sync-frm=0 --aria-pagecache-buffer-size=128K
    local n=300
    until [ -S "$RUN/mariadb.sock" ]; do
        n=$((n - 1))
        [ $n -gt 0 ] || { tail -5 "$LOG/mariadb.log"; return 1; }
        sleep 0.1
    done
}

neutron_db() {
    [ "$MODE" = api ] || mariadb || return 1
    [ -e "$DB/neutron.ready" ] && return 0
    rm -f "$DB"/neutron.sqlite*
    "$NPY" -W ignore "$LAB_SRC/lib/neutron_schema.py" "$NEUTRON_DB" || return 1
    touch "$DB/neutron.ready"
}
