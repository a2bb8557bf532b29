"""Serve a Neutron that has no server of its own any more (from 2025.1 on), on loopback.

A stub of the `uwsgi` module tells it that there is one worker.
usage: neutron_wsgi.py NEUTRON_CONF PORT
"""
import os
import socketserver
import sys
import types
from wsgiref import simple_server

sys.modules['uwsgi'] = types.SimpleNamespace(numproc=1, worker_id=lambda: 1, opt={})
os.environ['OS_NEUTRON_CONFIG_FILES'] = sys.argv[1]
port = int(sys.argv[2])
sys.argv[1:] = []

from neutron.wsgi.api import application  # noqa: E402


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(simple_server.WSGIRequestHandler):
    def address_string(self):  # no reverse look-up of the client's name
        return self.client_address[0]


with simple_server.make_server('127.0.0.1', port, application, Server, Handler) as httpd:
    httpd.serve_forever()
