"""Requests of the lab's own account. usage: with the environment of env.sh"""
import json
import os
import urllib.request

E = os.environ
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(url, body, headers):
    """POSTs a body, or GETs without one."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {'Content-Type': 'application/json', **headers})
    return opener.open(request, timeout=60)


def token():
    """The header that says who asks; none without Keystone."""
    if E['NEUTRON_LAB_AUTH'] != 'keystone':
        return {}
    return {'X-Auth-Token': call(E['OS_AUTH_URL'] + '/auth/tokens', {'auth': {
        'identity': {'methods': ['password'], 'password': {'user': {
            'name': E['OS_USERNAME'], 'domain': {'id': 'default'}, 'password': E['OS_PASSWORD']}}},
        'scope': {'project': {'name': E['OS_PROJECT_NAME'], 'domain': {'id': 'default'}}}}},
        {}).headers['X-Subject-Token']}
