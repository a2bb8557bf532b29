#!/bin/sh
# Both /opt/network/add and /opt/network/del of the spy: writes down how it is called, below /spy,
# and does what stands in /spy/tell/NETWORK.VERB.
verb=${0##*/}
n=1
mkdir -p /spy/calls /spy/tell
until mkdir /spy/calls/$n 2>/dev/null; do n=$((n + 1)); done
call=/spy/calls/$n
cat >$call/stdin
name=$(tr -d '\n' <$call/stdin | sed -n 's/.*"name" *: *"\([^"]*\)".*/\1/p')
echo "$verb" >$call/verb
echo "$name" >$call/network
for word; do echo "$word"; done >$call/argv
tr '\0' '\n' </proc/self/environ >$call/env
{ id -u; id -g; pwd; } >$call/who
grep -E '^(Cap|NoNewPrivs|Groups)' /proc/self/status >$call/status
stat -L -c %i "$1" >$call/netns 2>/dev/null
touch $call/complete
if [ -e "/spy/tell/$name.$verb" ]; then
    . "/spy/tell/$name.$verb"
    exit
fi
[ $verb = del ] || echo '{"ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1"}}'
