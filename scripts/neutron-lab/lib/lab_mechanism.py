"""An ML2 mechanism driver without a dataplane: what becomes of a port its host's name says.

  ovs-...      vif_type ovs, ACTIVE          hybrid-...   the same with a Linux bridge in between
  bridge-...   vif_type bridge, ACTIVE       tap-...      vif_type tap, ACTIVE
  down-...     vif_type ovs, stays DOWN      other-...    a vif_type that no driver knows, ACTIVE
Ports of any other host are not bound (vif_type binding_failed).
"""
from neutron_lib import constants
from neutron_lib.plugins.ml2 import api

KINDS = {
    'ovs': ('ovs', {'port_filter': True}),
    'hybrid': ('ovs', {'port_filter': True, 'ovs_hybrid_plug': True}),
    'bridge': ('bridge', {'port_filter': True}),
    'tap': ('tap', {'port_filter': True}),
    'down': ('ovs', {'port_filter': True}),
    'other': ('other', {'port_filter': False}),
}


class LabMechanismDriver(api.MechanismDriver):
    def initialize(self):
        pass

    def bind_port(self, context):
        kind = context.host.split('-')[0]
        if kind in KINDS:
            vif_type, details = KINDS[kind]
            status = constants.PORT_STATUS_DOWN if kind == 'down' else constants.PORT_STATUS_ACTIVE
            context.set_binding(context.segments_to_bind[0][api.ID], vif_type, dict(details), status)
