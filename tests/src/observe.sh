# What one network namespace holds, in sections that begin with a line "@NAME". A program takes longer to start than to
# look: there are few of them, and none whose answer another one's says to be empty.
observe() {
    local links rules
    links=$(ip -j -d link show)
    printf '@link\n%s\n' "$links"
    # A line each. A command that fails ends them.
    local family=$'address show\nroute show table all\nrule show'
    printf '\n@inet\n'
    ip -j -4 -batch - <<<"$family"
    printf '\n@inet6\n'
    ip -j -6 -batch - <<<"$family"
    rules=$(nft -s list ruleset)
    printf '\n@nft\n%s\n' "$rules"
    # iptables-save shows tables of nftables, unless it is the one that asks the kernel's former interface.
    local is_nft=
    [ "$iptables" -ef /usr/sbin/xtables-nft-multi ] && is_nft=yes
    printf '\n@iptables\n'
    [[ $is_nft && $rules != *"table ip "* ]] || iptables-save
    printf '\n@ip6tables\n'
    [[ $is_nft && $rules != *"table ip6 "* ]] || ip6tables-save
    printf '\n@sysctl\n'
    # Paths by the shell's patterns: a program for each costs more than all else here.
    cd /proc/sys/net
    grep -Hs . ipv4/ip_forward ipv[46]/conf/*/{accept_ra,arp_notify,disable_ipv6,forwarding,keep_addr_on_down,ndisc_notify,proxy_arp,route_localnet,rp_filter}
    printf '\n@qdisc\n'
    tc -j qdisc show
    printf '\n@vlans\n'
    # Only bridges and their ports have some.
    [[ $links != *bridge* ]] || bridge -j vlan show
    echo
}
for tool in ip nft iptables-save; do command -v $tool >/dev/null; done
iptables=$(command -v iptables-save)
export iptables
export -f observe
echo @@host
(observe 2>/dev/null || true)
for space in /run/netns/*; do
    nsenter --net="$space" bash -c 'echo "@@$1"; observe' _ "${space##*/}" 2>/dev/null || true
done
