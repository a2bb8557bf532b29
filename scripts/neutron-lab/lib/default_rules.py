"""Add the rules of default security groups where a migration would have made them.

Tables made from the models have none (Neutron from 2023.2 on), and then nothing is let through:
everything out, and in what comes from members of the same group.
usage: with the environment of an administrator (env.sh)
"""
from rest import E, call, token

OUT = {'direction': 'egress', 'used_in_non_default_sg': True}
IN = {'direction': 'ingress', 'used_in_non_default_sg': False, 'remote_group_id': 'PARENT'}
who = token()
for rule in (OUT, IN):
    for ethertype in ('IPv4', 'IPv6'):
        call(E['NEUTRON_URL'] + '/v2.0/default-security-group-rules', {'default_security_group_rule': {
            'ethertype': ethertype, 'used_in_default_sg': True, **rule}}, who)
