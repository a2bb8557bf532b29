//! Announces hosts to drivers (DiscoverNew, DiscoverDelete).

use model::{DriverName, Error, Result};

use super::Remote;
use libnetwork::{Call, Discovery, Scope};

impl Remote {
    /// DiscoverNew: another host, or this one, is there. Sent to a driver whose networks span
    /// hosts, and silently skipped for any other.
    pub fn discover(&self, driver: &DriverName, found: &Discovery) -> Result<()> {
        self.report(driver, &Call::DiscoverNew(found.clone()))
    }

    /// DiscoverDelete: the opposite.
    pub fn disappear(&self, driver: &DriverName, gone: &Discovery) -> Result<()> {
        self.report(driver, &Call::DiscoverDelete(gone.clone()))
    }

    fn report(&self, driver: &DriverName, call: &Call) -> Result<()> {
        let profile = self.calls.profile(driver)?;
        let spans = profile.network.is_some_and(|able| able.connectivity == Scope::Global);
        match spans {
            true => self.calls.call(driver, call).map(drop).map_err(Error::from),
            false => Ok(()),
        }
    }
}
