"""Serve a Neutron that has no server of its own any more (from 2025.1 on), on loopback.

A stub of the `uwsgi` module tells it that there is one worker. With `alone`, one thread at a time
runs a request: a sqlite file has one writer.
usage: neutron_wsgi.py NEUTRON_CONF PORT [alone]
"""
import os
import socketserver
import sys
import threading
import types
from wsgiref import simple_server

sys.modules['uwsgi'] = types.SimpleNamespace(numproc=1, worker_id=lambda: 1, opt={})
os.environ['OS_NEUTRON_CONFIG_FILES'] = sys.argv[1]
port, alone = int(sys.argv[2]), 'alone' in sys.argv[3:]
sys.argv[1:] = []

from neutron.wsgi.api import application  # noqa: E402


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(simple_server.WSGIRequestHandler):
    def address_string(self):  # no reverse look-up of the client's name
        return self.client_address[0]


one_at_a_time = threading.Lock()


def serialized(environ, start_response):
    with one_at_a_time:
        return [b''.join(application(environ, start_response))]


application_served = serialized if alone else application
with simple_server.make_server('127.0.0.1', port, application_served, Server, Handler) as httpd:
    httpd.serve_forever()
