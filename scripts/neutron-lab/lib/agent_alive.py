"""Wait until Neutron takes a host's agent for alive: it binds no port to another one.

usage: with the environment of an administrator (env.sh): agent_alive.py HOST
"""
import json
import sys
import time

from rest import E, call, token

for _ in range(100):
    with call(E['NEUTRON_URL'] + '/v2.0/agents?host=' + sys.argv[1], None, token()) as answer:
        if any(agent['alive'] for agent in json.load(answer)['agents']):
            sys.exit()
    time.sleep(0.2)
sys.exit(f'Neutron knows no living agent of {sys.argv[1]}')
