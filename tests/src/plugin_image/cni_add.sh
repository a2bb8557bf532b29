#!/bin/sh
payload=$(mktemp $TMPDIR/cni-command.XXXXXX)
cat >$payload
plugin=$(jq -r '.type // ""' $payload)
if [ -z "$plugin" ]; then
    echo "No CNI plugin specified"
    exit 1
fi
export CNI_PATH=/usr/bin CNI_COMMAND=ADD
export CNI_NETNS=$1 CNI_CONTAINERID=$2 CNI_IFNAME=$3
export PATH=$PATH:/usr/bin
exec $plugin <$payload
