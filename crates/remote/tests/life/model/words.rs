//! Calls as tests write them down.

use libnetwork::Call;

pub(super) fn describe(call: &Call) -> String {
    match call {
        Call::GwAllocCheck(_) => "GwAllocCheck".into(),
        Call::CreateNetwork(_) => "CreateNetwork".into(),
        Call::DeleteNetwork(_) => "DeleteNetwork".into(),
        Call::AllocateNetwork(_) => "AllocateNetwork".into(),
        Call::FreeNetwork(_) => "FreeNetwork".into(),
        Call::CreateEndpoint(_) => "CreateEndpoint".into(),
        Call::EndpointOperInfo(_) => "EndpointOperInfo".into(),
        Call::DeleteEndpoint(_) => "DeleteEndpoint".into(),
        Call::Join(_) => "Join".into(),
        Call::Leave(_) => "Leave".into(),
        Call::ProgramConnectivity(_) => "Program".into(),
        Call::RevokeConnectivity(_) => "Revoke".into(),
        Call::DiscoverNew(_) => "DiscoverNew".into(),
        Call::DiscoverDelete(_) => "DiscoverDelete".into(),
        Call::RequestPool(one) => match one.pool {
            Some(pool) => format!("RequestPool {pool}"),
            None => format!("RequestPool {}", if one.v6 { "v6" } else { "v4" }),
        },
        Call::ReleasePool(key) => {
            format!("ReleasePool {}", key.as_str().split('|').nth(1).unwrap_or("?"))
        }
        Call::RequestAddress(one) => match one.address {
            Some(address) => format!("RequestAddress {address} {:?}", one.purpose),
            None => format!("RequestAddress {:?}", one.purpose),
        },
        Call::ReleaseAddress(one) => format!("ReleaseAddress {}", one.address),
    }
}
