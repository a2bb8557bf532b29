//! The rules of one container, which hold instead of those of its network.

use crate::{Attachment, Error, Fence, Gateway, Network, Result, Wiring, text};

impl Fence {
    /// The rules of one container as options say them, and in the option of this name whether they are strict.
    ///
    /// # Errors
    /// [`crate::Kind::Invalid`].
    pub fn of_one(
        rules: Option<&str>,
        (key, strict): (&str, Option<&str>),
    ) -> Result<Option<Self>> {
        let strict = match strict {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                let shown = text::shown(other);
                return Err(Error::invalid(format!("{key}={shown}: it is true or false")));
            }
        };
        Self::strictly(rules.map(str::parse).transpose()?, (key, strict))
    }

    /// The rules of one container, which are strict where an option of this name says so.
    ///
    /// # Errors
    /// [`crate::Kind::Invalid`] where there are none.
    pub fn strictly(rules: Option<Self>, (key, strict): (&str, bool)) -> Result<Option<Self>> {
        match rules {
            Some(rules) => Ok(Some(Self { strict, ..rules })),
            None if strict => Err(Error::invalid(format!(
                "{key} makes rules of the container's own strict: give it some, as egress, or make the \
                 network strict"
            ))),
            None => Ok(None),
        }
    }
}

impl Attachment {
    /// What the container may reach by its network: its own rules, or else the network's, as they were when
    /// it came.
    pub fn fence(&self) -> Option<&Fence> {
        self.wiring.own_fence.as_ref().or(self.wiring.fence.as_ref())
    }

    /// Refuses rules of the container where nothing could keep them.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`], with what is in the way.
    pub fn refuse_own_fence(&self) -> Result<()> {
        let Some(own) = &self.wiring.own_fence else { return Ok(()) };
        let network = &self.id.network;
        let asked = Wiring { fence: Some(own.clone()), ..self.wiring.clone() };
        asked.refuse_fence(network, &self.ipam)?;
        let bridge = self.wiring.bridge();
        let refused =
            |why: &str| Err(Error::unsupported(format!("network {network}: egress of one {why}")));
        if !self.wiring.has_names() {
            return refused(
                "container needs a network with names or egress: make it with --names, --egress or \
                 names=true",
            );
        }
        if bridge.is_some_and(|bridge| bridge.port.vlans != crate::Vlans::default()) {
            return refused("container is not supported on a VLAN of a bridge");
        }
        Ok(())
    }
}

impl Network {
    /// Refuses rules of one of its containers where these have their way out elsewhere.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`].
    pub fn refuse_own_fences(&self) -> Result<()> {
        let bridge = self.wiring.bridge();
        match bridge.is_some_and(|bridge| bridge.gateway == Gateway::Default) {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "network {}: egress of one container needs a bridge that is the containers' default gateway",
                self.name
            ))),
        }
    }
}
