"""Who asks, in a Neutron without Keystone: the project of the header X-Project-Id.

It has the role `kuryr` (policy.yaml): it sees its own and what is shared, as a tenant does, and may
bind ports. A request without the header is an administrator's.
"""
import webob.dec
from neutron_lib import context
from oslo_middleware import base


class ProjectOfHeader(base.ConfigurableMiddleware):
    @webob.dec.wsgify
    def __call__(self, req):
        project = req.headers.get('X-Project-Id')
        if project:
            asking = context.Context(user_id='kuryr', project_id=project, is_admin=False,
                                     is_advsvc=False, roles=['member', 'reader', 'kuryr'])
        else:
            asking = context.Context(user_id='admin', project_id='admin', is_admin=True,
                                     roles=['admin', 'member', 'reader'])
        asking.request_id = req.environ.get('openstack.request_id', asking.request_id)
        req.environ['neutron.context'] = asking
        return self.application
