# A host with networks and namespaces on them, and a machine beyond its default route.
spoke=/opt/cni/bin/spoke
ip netns add far
ip -n far link set lo up
ip link add up0 type veth peer name eth0 netns far
ip address add 192.0.2.1/24 dev up0
ip -n far address add 192.0.2.2/24 dev eth0
ip -n far address add 203.0.113.77/32 dev lo
ip -n far address add 198.51.100.1/32 dev lo
ip link set up0 up
ip -n far link set eth0 up
ip -n far route add 192.0.2.1/32 dev eth0 src 203.0.113.77
ip route add default via 192.0.2.2
$spoke network create --names --subnet 10.70.1.0/24 --subnet fd70:1::/64 front
$spoke network create --subnet 10.70.2.0/24 back
$spoke network create --internal --subnet 10.70.3.0/24 inner
for name in a b c d e f g; do ip netns add $name; done
$spoke network connect --ip 10.70.1.2 --ip6 fd70:1::2 front a
$spoke network connect --ip 10.70.1.3 --ip6 fd70:1::3 --publish 8080:80 front b
$spoke network connect --ip 10.70.2.2 back c
$spoke network connect --ip 10.70.3.2 inner d
$spoke network connect --ip 10.70.1.5 --publish 127.0.0.1:8081:80 front e
$spoke network connect --ip 10.70.1.6 front f
$spoke network connect --ip 10.70.1.7 front g
mkdir /run/www
echo hello >/run/www/index.html
for name in b c d e far; do ip netns exec $name busybox httpd -p 80 -h /run/www; done
ip netns exec b busybox httpd -p 127.0.0.1:82 -h /run/www
sysctl -qw net.bridge.bridge-nf-call-iptables=0
