//! What a command changes of a network that is in use.

use crate::{Label, Labels, Network, Result, Settings};

/// What a command changes of a network that is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkChange {
    /// What its attachments have to follow.
    pub settings: Settings,
    /// Whether a container that returns gets the same addresses.
    pub sticky: Option<bool>,
    /// Labels that it gets, instead of those with the same keys.
    pub labels: Vec<Label>,
    /// The keys of labels that it loses.
    pub unlabel: Vec<String>,
}

impl NetworkChange {
    /// The network with the change. The part of its wiring that publishes ports is the caller's.
    ///
    /// # Errors
    /// [`crate::Kind::Invalid`] where it would have too many labels.
    pub fn of(&self, network: &Network) -> Result<Network> {
        let mut changed = network.clone();
        let settings = &mut changed.settings;
        settings.mtu = self.settings.mtu.or(settings.mtu);
        settings.reach = self.settings.reach.or(settings.reach);
        if let Some(way) = &self.settings.way {
            settings.way = Some(way.clone());
            changed.wiring.via = way.via().cloned();
        }
        if let Some(link) = &mut changed.wiring.link {
            link.mtu = self.settings.mtu.or(link.mtu);
        }
        changed.sticky = self.sticky.unwrap_or(changed.sticky);
        let kept = changed.labels.pairs().iter();
        let kept = kept.filter(|(key, _)| !self.unlabel.contains(key));
        let kept: Result<Vec<Label>> = kept.map(|(key, value)| Label::new(key, value)).collect();
        changed.labels = Labels::of(kept?.into_iter().chain(self.labels.iter().cloned()))?;
        Ok(changed)
    }
}
