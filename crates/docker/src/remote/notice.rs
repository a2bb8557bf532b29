//! Announces hosts to drivers (DiscoverNew, DiscoverDelete).

use model::{DriverName, Error, Result};

use super::Remote;
use crate::wire::{Call, Discovery, Scope};

impl Remote {
    /// Every driver that is installed on this host, whether or not it lives. Calls nobody.
    pub fn installed(&self) -> Vec<DriverName> {
        self.calls.installed()
    }

    /// Which life of a plugin answers: another one must be told again of every host. Calls nobody.
    pub fn life(&self, driver: &DriverName) -> Result<super::calls::Life> {
        self.calls.life(driver).map_err(Error::from)
    }

    /// DiscoverNew: another host, or this one, is there. Told to a driver whose networks span hosts,
    /// and passed over in silence for any other.
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
