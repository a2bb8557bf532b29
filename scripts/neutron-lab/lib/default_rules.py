"""Add the default security group's egress rules where a migration would have made them.

Tables made from the models have none (Neutron from 2023.2 on), and then all egress is dropped.
usage: with the environment of an administrator (env.sh)
"""
import json
import os
import urllib.error
import urllib.request

E = os.environ
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(url, body, headers):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {'Content-Type': 'application/json', **headers})
    return opener.open(request, timeout=60)


token = {}
if E['NEUTRON_LAB_AUTH'] == 'keystone':
    token = {'X-Auth-Token': call(E['OS_AUTH_URL'] + '/auth/tokens', {'auth': {
        'identity': {'methods': ['password'], 'password': {'user': {
            'name': E['OS_USERNAME'], 'domain': {'id': 'default'}, 'password': E['OS_PASSWORD']}}},
        'scope': {'project': {'name': E['OS_PROJECT_NAME'], 'domain': {'id': 'default'}}}}},
        {}).headers['X-Subject-Token']}
for ethertype in ('IPv4', 'IPv6'):
    call(E['NEUTRON_URL'] + '/v2.0/default-security-group-rules', {'default_security_group_rule': {
        'direction': 'egress', 'ethertype': ethertype,
        'used_in_default_sg': True, 'used_in_non_default_sg': True}}, token)
