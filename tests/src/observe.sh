# What one network namespace holds, in sections that begin with a line "@NAME".
link() { ip -j -d link show; }
address() { ip -j address show; }
route() { ip -j -4 route show table all; }
route6() { ip -j -6 route show table all; }
rule() { ip -j -4 rule show; }
rule6() { ip -j -6 rule show; }
nft() { command nft -s list ruleset; }
iptables() { iptables-save; }
ip6tables() { ip6tables-save; }
sysctl() {
    local of_if="accept_ra arp_notify disable_ipv6 forwarding keep_addr_on_down ndisc_notify proxy_arp route_localnet rp_filter"
    cd /proc/sys/net
    # Paths by the shell's patterns: a program for each costs more than all else here.
    grep -Hs . ipv4/ip_forward $(for key in $of_if; do echo ipv[46]/conf/*/$key; done)
}
qdisc() { tc -j qdisc show; }
vlans() { bridge -j vlan show; }
for section in link address route route6 rule rule6 nft iptables ip6tables sysctl qdisc vlans; do
    echo "@$section"
    $section 2>/dev/null
    echo
done
