//! A call of a driver, as the plugin's profile allows it.

use std::sync::Arc;

use libnetwork::{Answer, Call, LONGEST_BODY, Method, Profile};
use model::{DriverName, Error, Kind, Result};

use crate::calls::{Calls, Failed, Fate, Life};
use crate::plugins::{Plugins, lock};
use crate::request::{Request, Until};
use crate::verdict;

impl Calls for Plugins {
    fn pause(&self) {
        for plugin in lock(&self.known).values() {
            *lock(&plugin.idle) = None;
        }
    }

    fn call(&self, driver: &DriverName, call: &Call) -> Result<Answer, Failed> {
        let unsent = |error| Failed::new(error, Fate::Unsent);
        let method = call.method();
        let until = Until::timeout(self.timeout);
        let profile = self.activated(driver, &until).map_err(|mut failed| {
            // Whatever became of the question, the call itself was not made.
            failed.fate = Fate::Unsent;
            failed
        })?;
        let (has, what) = match method.name().starts_with("IpamDriver.") {
            true => (profile.ipam.is_some(), "IPAM"),
            false => (profile.network.is_some(), "network"),
        };
        if !has {
            let what = format!("plugin {driver} is no {what} driver: it does not say so");
            return Err(unsent(Error::unsupported(what)));
        }
        let body = call.encode();
        if body.len() > LONGEST_BODY {
            let what = format!("plugin {driver}: {} is longer than 1 MiB", method.name());
            return Err(unsent(Error::invalid(what)));
        }
        let is_repeatable = may_be_repeated(method);
        let request = Request { method, body: &body, is_repeatable };
        let replied = self.exchange(driver, &request, &until)?;
        match verdict::answer(driver, call, &replied.reply) {
            // Because this process itself did that, and did not get the answer.
            Err(failed) if replied.was_taken && takes_away(method) && is_missing(&failed) => {
                Ok(Answer::Done {})
            }
            answer => answer,
        }
    }

    fn profile(&self, driver: &DriverName) -> Result<Arc<Profile>, Failed> {
        self.activated(driver, &Until::timeout(self.timeout))
    }

    fn life(&self, driver: &DriverName) -> Result<Life, Failed> {
        let found = self.find(driver).map_err(|error| Failed::new(error, Fate::Unsent))?;
        Ok(found.life())
    }

    fn warnings(&self, driver: &DriverName) -> Vec<String> {
        self.find(driver).map(|installed| installed.warnings).unwrap_or_default()
    }

    fn installed(&self) -> Vec<DriverName> {
        self.places.names().into_iter().collect()
    }
}

fn is_missing(failed: &Failed) -> bool {
    failed.fate == Fate::Refused && failed.kind() == Kind::NotFound
}

/// Whether the call removes its object.
fn takes_away(method: Method) -> bool {
    matches!(
        method,
        Method::DeleteNetwork
            | Method::FreeNetwork
            | Method::DeleteEndpoint
            | Method::Leave
            | Method::RevokeConnectivity
            | Method::ReleaseAddress
    )
}

/// By the contract, these calls can be repeated without effect. A pool is counted at each request
/// and release. A repeated request for an address or an endpoint may be refused as taken, by the
/// first one. And an address that was released may have another holder already: the undo log knows
/// the holder before the address is released again.
fn may_be_repeated(method: Method) -> bool {
    match method {
        Method::Activate
        | Method::NetworkCapabilities
        | Method::GwAllocCheck
        | Method::DeleteNetwork
        | Method::FreeNetwork
        | Method::EndpointOperInfo
        | Method::DeleteEndpoint
        | Method::Leave
        | Method::ProgramConnectivity
        | Method::RevokeConnectivity
        | Method::DiscoverNew
        | Method::DiscoverDelete
        | Method::IpamCapabilities
        | Method::AddressSpaces => true,
        Method::CreateNetwork
        | Method::AllocateNetwork
        | Method::CreateEndpoint
        | Method::Join
        | Method::RequestPool
        | Method::ReleasePool
        | Method::RequestAddress
        | Method::ReleaseAddress => false,
    }
}
