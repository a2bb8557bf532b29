//! What is refused of a network or a container because its link could not keep it: rules of egress, a way out, a
//! quota.

use crate::{
    Attachment, Backend, Bridge, Error, Gateway, Ipam, LinkKind, Network, NetworkName, Result,
    Runtime, Via, Vlans, Wiring,
};

impl Wiring {
    /// Refuses a fence where nothing could keep it: Spoke answers names and judges packets at the gateway
    /// that a bridge of its own is.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`], with what is in the way.
    pub fn refuse_fence(&self, network: &NetworkName, ipam: &Ipam) -> Result<()> {
        if self.fence.is_none() {
            return Ok(());
        }
        let internal = "says where an internal network's packets may go: leave out one of both";
        self.refuse_unrouted("egress", network, internal)?;
        if self.name_servers(ipam).is_empty() {
            return Err(Error::unsupported(format!(
                "network {network}: egress needs a subnet of which Spoke knows the gateway, for the network's names"
            )));
        }
        Ok(())
    }

    /// Refuses a way out for links whose packets it would not hold.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] where this host does not route all packets of the network, or not with
    /// nftables.
    pub fn refuse_via(&self, network: &NetworkName) -> Result<()> {
        if self.via.is_none() {
            return Ok(());
        }
        let internal = "is no use for an internal network: leave out one of both";
        let bridge = self.refuse_unrouted("via", network, internal)?;
        match self.via.as_ref().is_some_and(|via| *via == Via::Device(bridge.name.clone())) {
            true => Err(Error::unsupported(format!(
                "network {network}: via names the network's own bridge"
            ))),
            false => Ok(()),
        }
    }

    /// The bridge of a network with this option, all of whose packets this host routes and judges by nftables.
    /// `internal` says what is wrong with the option where nothing leaves the network.
    fn refuse_unrouted(
        &self,
        option: &str,
        network: &NetworkName,
        internal: &str,
    ) -> Result<&Bridge> {
        let refused =
            |why: &str| Err(Error::unsupported(format!("network {network}: {option} {why}")));
        let Some(bridge) = self.bridge() else {
            return refused("needs a bridge, which is the network's gateway (driver bridge)");
        };
        if self.is_internal() {
            return refused(internal);
        }
        if bridge.gateway == Gateway::None || self.address_space.is_some() {
            return refused("needs a bridge that is the network's gateway");
        }
        if bridge.port.vlans != Vlans::default() {
            return refused("is not supported on a VLAN of a bridge");
        }
        let is_other = |backend: Backend| backend != Backend::Nftables;
        if self.firewall.as_ref().is_none_or(|it| is_other(it.backend))
            || self.masquerade.as_ref().is_some_and(|it| is_other(it.backend))
        {
            return refused("needs the nftables back end");
        }
        Ok(bridge)
    }
}

impl Network {
    /// The same of a network that is made: its containers must not get another way out for the lack of one.
    ///
    /// # Errors
    /// As [`Wiring::refuse_fence`].
    pub fn refuse_fence(&self) -> Result<()> {
        self.wiring.refuse_fence(&self.name, &self.ipam)?;
        match self.wiring.fence.is_some() {
            true => self.refuse_other_way("egress", &self.name),
            false => Ok(()),
        }
    }

    /// Refuses rules of one of its containers where these have their way out elsewhere.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`].
    pub fn refuse_own_fences(&self) -> Result<()> {
        self.refuse_other_way("egress of one container", &self.name)
    }

    /// The same of a network that is made: its containers must not get another way out for the lack of one.
    ///
    /// # Errors
    /// As [`Wiring::refuse_via`].
    pub fn refuse_via(&self) -> Result<()> {
        self.wiring.refuse_via(self.called())?;
        if let Some(Via::Container(Runtime::Docker, id)) = &self.wiring.via
            && id.len() == 64
            && id.bytes().all(|it| it.is_ascii_hexdigit())
        {
            return Err(Error::unsupported(format!(
                "network {}: via container:docker/{id}: a container of Docker is known by its name here, \
                 and not by its id; say container:docker/NAME",
                self.called()
            )));
        }
        match self.wiring.via.is_some() {
            true => self.refuse_other_way("via", self.called()),
            false => Ok(()),
        }
    }

    /// Refuses an option where the containers' default route does not lead through the bridge.
    fn refuse_other_way(&self, option: &str, called: &NetworkName) -> Result<()> {
        match self.wiring.bridge().is_some_and(|bridge| bridge.gateway == Gateway::Default) {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "network {called}: {option} needs a bridge that is the containers' default gateway"
            ))),
        }
    }
}

impl Attachment {
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
        if bridge.is_some_and(|bridge| bridge.port.vlans != Vlans::default()) {
            return refused("container is not supported on a VLAN of a bridge");
        }
        Ok(())
    }

    /// Refuses a quota where the host does not see every packet of the container, or another program made the link.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`], with what is in the way.
    pub fn refuse_quota(&self) -> Result<()> {
        match self.wiring.link.as_ref().map(|link| &link.kind) {
            Some(LinkKind::Bridge(_) | LinkKind::Ptp(_)) => Ok(()),
            Some(kind) => Err(Error::unsupported(format!(
                "{}: a quota needs a network of bridge or ptp: what a container of {} sends passes this host's \
                 packet filter by; set a rate, or connect it to another network",
                self.id,
                kind.traits().name
            ))),
            None => Err(Error::unsupported(format!(
                "{}: a quota needs a link that Spoke makes, and another plugin limits this one: set a rate by \
                 spoke limit, start it again, and set the quota then",
                self.id
            ))),
        }
    }
}
