//! Stages of networks: which process makes or removes one, and whether it is open to attachments.

use model::{Error, Layer, Network, Process, Result, Stage, Unmaking};

use crate::Records;
use crate::port::{Expect, Key, Txn};
use crate::records::book::{Read, unchanged};

impl Records<'_> {
    /// Adds to an attach that its network is not being removed; the network's record of this boot.
    pub(crate) fn expect_open(
        &self,
        network: &Network,
        layer: Layer,
        txn: Txn,
    ) -> Result<(Option<Read<Box<Network>>>, Txn)> {
        if layer != Layer::Link {
            return Ok((None, txn));
        }
        let key = Key::Configured(network.name.clone());
        let known = self.network_under(&key)?;
        if let Some(known) = &known {
            self.refuse_if_worked_on(&known.value)?;
        }
        let txn = txn.require(key, unchanged(known.as_ref()));
        Ok((known, txn))
    }

    /// The network as a configuration described it: the mark of a dead process is no part of it.
    pub(super) fn unmarked(&self, network: Network) -> Network {
        if self.is_worked_on(&network) { network } else { opened(network) }
    }

    /// The same, where no process is about to remove it.
    ///
    /// # Errors
    /// `TryAgain` where one is.
    pub(crate) fn refuse_closed(&self, network: Box<Network>) -> Result<Box<Network>> {
        self.refuse_if_worked_on(&network)?;
        Ok(Box::new(opened(*network)))
    }

    pub(crate) fn is_failed(&self, network: &Network) -> bool {
        match &network.stage {
            Stage::Failed => true,
            Stage::Making { by } | Stage::Unmaking { by, .. } => !self.host.is_running(by),
            Stage::Made | Stage::Draining | Stage::Template => false,
        }
    }

    pub(crate) fn refuse_if_worked_on(&self, network: &Network) -> Result<()> {
        match self.at_work(network) {
            Some((what, by)) => Err(Error::try_again(format!(
                "network {} is being {what} by process {}",
                network.name, by.pid
            ))),
            None => Ok(()),
        }
    }

    fn at_work(&self, network: &Network) -> Option<(&'static str, Process)> {
        let (what, by) = match &network.stage {
            Stage::Making { by } => ("made", *by),
            Stage::Unmaking { by, why: Unmaking::Removed } => ("removed", *by),
            Stage::Unmaking { by, why: Unmaking::Renamed } => ("renamed", *by),
            Stage::Made | Stage::Draining | Stage::Failed | Stage::Template => return None,
        };
        self.host.is_running(&by).then_some((what, by))
    }

    /// Whether a process works on it.
    fn is_worked_on(&self, network: &Network) -> bool {
        self.at_work(network).is_some()
    }

    /// Fails where nothing can be attached to the network; says what must stay as it is until it
    /// is.
    pub(crate) fn refuse_unmade(&self, network: &Network) -> Result<Option<(Key, Expect)>> {
        if !network.is_remote() {
            return self.refuse_stage(network).map(|()| None);
        }
        let key = Key::Network(network.name.clone());
        let Some(read) = self.network_under(&key)? else {
            return Err(Error::not_found(format!(
                "network {0} is not there: its plugin must create it before the first container is attached; `spoke network create {0}` does that",
                network.name
            )));
        };
        self.refuse_stage(&read.value)?;
        if read.value.ipam.remote() != network.ipam.remote() {
            return Err(Error::try_again(format!(
                "network {} was made anew a moment ago, with other addresses",
                network.name
            )));
        }
        Ok(Some((key, unchanged(Some(&read)))))
    }

    pub(crate) fn refuse_stage(&self, network: &Network) -> Result<()> {
        self.refuse_if_worked_on(network)?;
        match &network.stage {
            Stage::Made => Ok(()),
            Stage::Draining if network.unsupported => Err(Error::unsupported(format!(
                "network {} takes no more containers here: its packets go from host to host in a way that this Spoke \
                 does not know; install the version of the other hosts",
                network.name
            ))),
            Stage::Draining => Err(Error::conflict(format!(
                "network {} takes no more containers here: this host is being drained; start them on another \
                 one, or end that with `spoke host drain --undo`",
                network.name
            ))),
            Stage::Template => Err(Error::invalid(format!(
                "network {} is only a configuration that others are made from; nothing can be attached to it",
                network.name
            ))),
            Stage::Making { .. } | Stage::Unmaking { .. } | Stage::Failed => {
                Err(Error::try_again(format!(
                    "creation of network {0} failed half-way; remove it, or make it again",
                    network.name
                )))
            }
        }
    }
}

/// Without the mark of a process that died.
pub(crate) fn opened(mut network: Network) -> Network {
    if let Stage::Unmaking { .. } = network.stage {
        network.stage = Stage::Made;
    }
    network
}
