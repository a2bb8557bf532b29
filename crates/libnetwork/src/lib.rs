//! The plugin protocol's requests and answers, as the engines from 20.10 on send and read them
//! (moby `libnetwork/docs/remote.md` and `ipam.md`).
//!
//! Requests are read leniently: no content type, keys in any case, null and absent alike, unknown
//! keys passed over. What they hold becomes a model type here or is refused here.

mod answer;
mod encode;
mod id;
mod ipam;
mod network;
pub mod object;
mod options;
pub mod parameters;
mod ports;
mod write;

pub use answer::{
    AddressSpaces, Answer, EndpointGiven, Failure, IpamCapabilities, Joined, Manifest, Moved,
    NetworkCapabilities, PoolGiven, Profile, Question, Releasable, Scope, Skip, StaticRoute,
    Unusable, failure, readable,
};
pub use id::{EndpointId, NetworkId, PoolKey, SpaceName};
pub use ipam::{EndpointName, Purpose, ReleaseAddress, RequestAddress, RequestPool};
pub use network::{
    AllocateNetwork, CreateEndpoint, CreateNetwork, Discovery, EndpointRef, Interface, Join, Node,
    ProgramConnectivity, Subnet,
};
pub use options::{EndpointOptions, NetworkOptions, SysctlSetting};
pub use ports::{Exposed, HostPorts, PortBinding, Ports};

use model::Error;
use object::Object;

/// The longest body that is read, in bytes. A container that publishes ten thousand ports needs
/// one of that order.
pub const LONGEST_BODY: usize = 1 << 20;

/// A URL of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// `Plugin.Activate`
    Activate,
    /// `NetworkDriver.GetCapabilities`
    NetworkCapabilities,
    /// `NetworkDriver.GwAllocCheck`, since 28.0.
    GwAllocCheck,
    /// `NetworkDriver.CreateNetwork`
    CreateNetwork,
    /// `NetworkDriver.DeleteNetwork`
    DeleteNetwork,
    /// `NetworkDriver.AllocateNetwork`, swarm's managers only.
    AllocateNetwork,
    /// `NetworkDriver.FreeNetwork`, swarm's managers only.
    FreeNetwork,
    /// `NetworkDriver.CreateEndpoint`
    CreateEndpoint,
    /// `NetworkDriver.EndpointOperInfo`
    EndpointOperInfo,
    /// `NetworkDriver.DeleteEndpoint`
    DeleteEndpoint,
    /// `NetworkDriver.Join`
    Join,
    /// `NetworkDriver.Leave`
    Leave,
    /// `NetworkDriver.ProgramExternalConnectivity`
    ProgramConnectivity,
    /// `NetworkDriver.RevokeExternalConnectivity`
    RevokeConnectivity,
    /// `NetworkDriver.DiscoverNew`
    DiscoverNew,
    /// `NetworkDriver.DiscoverDelete`
    DiscoverDelete,
    /// `IpamDriver.GetCapabilities`
    IpamCapabilities,
    /// `IpamDriver.GetDefaultAddressSpaces`
    AddressSpaces,
    /// `IpamDriver.RequestPool`
    RequestPool,
    /// `IpamDriver.ReleasePool`
    ReleasePool,
    /// `IpamDriver.RequestAddress`
    RequestAddress,
    /// `IpamDriver.ReleaseAddress`
    ReleaseAddress,
}

impl Method {
    /// Every one, in the order of the protocol's description.
    pub const ALL: [Method; 22] = [
        Method::Activate,
        Method::NetworkCapabilities,
        Method::GwAllocCheck,
        Method::CreateNetwork,
        Method::DeleteNetwork,
        Method::AllocateNetwork,
        Method::FreeNetwork,
        Method::CreateEndpoint,
        Method::EndpointOperInfo,
        Method::DeleteEndpoint,
        Method::Join,
        Method::Leave,
        Method::ProgramConnectivity,
        Method::RevokeConnectivity,
        Method::DiscoverNew,
        Method::DiscoverDelete,
        Method::IpamCapabilities,
        Method::AddressSpaces,
        Method::RequestPool,
        Method::ReleasePool,
        Method::RequestAddress,
        Method::ReleaseAddress,
    ];

    /// The method of a URL's path, `/NetworkDriver.Join`; none if there is no such method.
    pub fn from_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix('/')?;
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Its name on the wire: the path without the slash.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Activate => "Plugin.Activate",
            Method::NetworkCapabilities => "NetworkDriver.GetCapabilities",
            Method::GwAllocCheck => "NetworkDriver.GwAllocCheck",
            Method::CreateNetwork => "NetworkDriver.CreateNetwork",
            Method::DeleteNetwork => "NetworkDriver.DeleteNetwork",
            Method::AllocateNetwork => "NetworkDriver.AllocateNetwork",
            Method::FreeNetwork => "NetworkDriver.FreeNetwork",
            Method::CreateEndpoint => "NetworkDriver.CreateEndpoint",
            Method::EndpointOperInfo => "NetworkDriver.EndpointOperInfo",
            Method::DeleteEndpoint => "NetworkDriver.DeleteEndpoint",
            Method::Join => "NetworkDriver.Join",
            Method::Leave => "NetworkDriver.Leave",
            Method::ProgramConnectivity => "NetworkDriver.ProgramExternalConnectivity",
            Method::RevokeConnectivity => "NetworkDriver.RevokeExternalConnectivity",
            Method::DiscoverNew => "NetworkDriver.DiscoverNew",
            Method::DiscoverDelete => "NetworkDriver.DiscoverDelete",
            Method::IpamCapabilities => "IpamDriver.GetCapabilities",
            Method::AddressSpaces => "IpamDriver.GetDefaultAddressSpaces",
            Method::RequestPool => "IpamDriver.RequestPool",
            Method::ReleasePool => "IpamDriver.ReleasePool",
            Method::RequestAddress => "IpamDriver.RequestAddress",
            Method::ReleaseAddress => "IpamDriver.ReleaseAddress",
        }
    }
}

/// A decoded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// About the plugin itself; has no payload and is answered from its [`Profile`].
    Ask(Question),
    /// Work.
    Do(Box<Call>),
}

/// A call that works, with what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Which gateway addresses the engine need not request.
    GwAllocCheck(NetworkOptions),
    /// Make a network.
    CreateNetwork(CreateNetwork),
    /// Delete a network; its addresses and pools have been released before.
    DeleteNetwork(NetworkId),
    /// A swarm manager allocates what a network needs cluster-wide.
    AllocateNetwork(AllocateNetwork),
    /// The opposite; may come while endpoints exist.
    FreeNetwork(NetworkId),
    /// Make an endpoint.
    CreateEndpoint(CreateEndpoint),
    /// Report about an endpoint.
    EndpointOperInfo(EndpointRef),
    /// Delete an endpoint.
    DeleteEndpoint(EndpointRef),
    /// Bring an endpoint into a sandbox.
    Join(Join),
    /// Take it out again.
    Leave(EndpointRef),
    /// Publish a sandbox's ports through this endpoint.
    ProgramConnectivity(ProgramConnectivity),
    /// The opposite.
    RevokeConnectivity(EndpointRef),
    /// Another node appeared.
    DiscoverNew(Discovery),
    /// Another node went away.
    DiscoverDelete(Discovery),
    /// Take a pool.
    RequestPool(RequestPool),
    /// Give it back.
    ReleasePool(PoolKey),
    /// Take an address.
    RequestAddress(RequestAddress),
    /// Give it back.
    ReleaseAddress(ReleaseAddress),
}

/// Why a request is not carried out.
#[derive(Debug)]
pub enum Refusal {
    /// It is no JSON, or a value has another JSON type: HTTP status 400.
    Syntax(String),
    /// It can be decoded but says something that cannot be: HTTP status 200 and an error text.
    Value(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Value(error)
    }
}

/// The error of a call without a body: no engine sends one at first.
const REPEATED: &str = "try again: spoke serve was restarted while it worked on this call, and the \
    engine repeated it without saying what it is for";

/// Reads a request's body. Only questions may come without one: an engine that repeats a call
/// after a lost connection has no body left to send, and must learn at once that this is no use,
/// unless the server still has it.
pub fn decode(method: Method, body: &[u8]) -> Result<Request, Refusal> {
    if let Some(question) = Question::of(method) {
        return Ok(Request::Ask(question));
    }
    let name = method.name();
    let syntax = |what: String| Refusal::Syntax(format!("{name}: {what}"));
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(syntax(REPEATED.to_owned()));
    }
    if body.len() > LONGEST_BODY {
        return Err(syntax(format!("the body is longer than {LONGEST_BODY} bytes")));
    }
    let value = serde_json::from_slice(body)
        .map_err(|error| syntax(format!("the body is no JSON: {error}")))?;
    let call = Object::root(&value).and_then(|object| call(method, &object));
    call.map(|call| Request::Do(Box::new(call))).map_err(|refusal| match refusal {
        Refusal::Syntax(what) => syntax(what),
        Refusal::Value(error) => Refusal::Value(error.context(name)),
    })
}

fn call(method: Method, body: &Object<'_>) -> Result<Call, Refusal> {
    Ok(match method {
        Method::Activate
        | Method::NetworkCapabilities
        | Method::IpamCapabilities
        | Method::AddressSpaces => return Err(Error::bug("a question is no call").into()),
        Method::GwAllocCheck => Call::GwAllocCheck(NetworkOptions::read(&body.object("Options")?)?),
        Method::CreateNetwork => Call::CreateNetwork(CreateNetwork::read(body)?),
        Method::DeleteNetwork => Call::DeleteNetwork(body.required("NetworkID")?),
        Method::AllocateNetwork => Call::AllocateNetwork(AllocateNetwork::read(body)?),
        Method::FreeNetwork => Call::FreeNetwork(body.required("NetworkID")?),
        Method::CreateEndpoint => Call::CreateEndpoint(CreateEndpoint::read(body)?),
        Method::EndpointOperInfo => Call::EndpointOperInfo(EndpointRef::read(body)?),
        Method::DeleteEndpoint => Call::DeleteEndpoint(EndpointRef::read(body)?),
        Method::Join => Call::Join(Join::read(body)?),
        Method::Leave => Call::Leave(EndpointRef::read(body)?),
        Method::ProgramConnectivity => Call::ProgramConnectivity(ProgramConnectivity::read(body)?),
        Method::RevokeConnectivity => Call::RevokeConnectivity(EndpointRef::read(body)?),
        Method::DiscoverNew => Call::DiscoverNew(Discovery::read(body)?),
        Method::DiscoverDelete => Call::DiscoverDelete(Discovery::read(body)?),
        Method::RequestPool => Call::RequestPool(RequestPool::read(body)?),
        Method::ReleasePool => Call::ReleasePool(body.required("PoolID")?),
        Method::RequestAddress => Call::RequestAddress(RequestAddress::read(body)?),
        Method::ReleaseAddress => Call::ReleaseAddress(ReleaseAddress::read(body)?),
    })
}

impl Call {
    /// The id of what the call is about, for logs: the endpoint's, or else the network's or
    /// pool's.
    pub fn subject(&self) -> Option<&str> {
        Some(match self {
            Call::GwAllocCheck(_) | Call::DiscoverNew(_) | Call::DiscoverDelete(_) => return None,
            Call::CreateNetwork(network) => network.id.as_str(),
            Call::AllocateNetwork(network) => network.id.as_str(),
            Call::DeleteNetwork(network) | Call::FreeNetwork(network) => network.as_str(),
            Call::CreateEndpoint(create) => create.at.endpoint.as_str(),
            Call::Join(join) => join.at.endpoint.as_str(),
            Call::ProgramConnectivity(program) => program.at.endpoint.as_str(),
            Call::EndpointOperInfo(at)
            | Call::DeleteEndpoint(at)
            | Call::Leave(at)
            | Call::RevokeConnectivity(at) => at.endpoint.as_str(),
            Call::RequestPool(request) => request.space.as_str(),
            Call::ReleasePool(pool) => pool.as_str(),
            Call::RequestAddress(request) => request.pool.as_str(),
            Call::ReleaseAddress(release) => release.pool.as_str(),
        })
    }
}
