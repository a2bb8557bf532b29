//! Networks under the ids that runtimes give to them.

use model::{Alias, AliasId, Error, Network, NetworkName, Result};

use crate::Engine;
use crate::port::Prefix;

impl Engine<'_> {
    /// Makes `network`, or joins the one of its name that is there, and knows it under `alias` from
    /// then on. Repeating it is no error.
    pub fn enroll(&self, _alias: &Alias, _network: &Network) -> Result<Network> {
        Err(Error::bug("not there yet"))
    }

    /// Forgets the id, and removes the network if it was made for such an id and this was the last
    /// one. An unknown id is no error.
    pub fn withdraw(&self, _id: &AliasId) -> Result<()> {
        Err(Error::bug("not there yet"))
    }

    /// Remembers what people call the network in the runtime whose id this is; [`Engine::network`]
    /// finds it by that too. An unknown id is no error.
    pub fn set_title(&self, _id: &AliasId, _title: &NetworkName) -> Result<()> {
        Err(Error::bug("not there yet"))
    }

    /// What the id stands for.
    pub fn alias(&self, id: &AliasId) -> Result<Option<Alias>> {
        Ok(self.alias_of(id)?.map(|read| read.value))
    }

    /// Every id that is known.
    pub fn aliases(&self) -> Result<Vec<Alias>> {
        Ok(self.aliases_in(&Prefix::Aliases)?.into_iter().map(|read| read.value).collect())
    }
}
