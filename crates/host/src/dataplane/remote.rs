//! Attachments on networks of third-party Docker plugins: the plugin's part, and around it the
//! kernel's.

use std::borrow::Cow;
use std::sync::Arc;

use config::Config;
use engine::port::{Driver, Offer, Presence};
use linux::{Life, Linux};
use model::{Attached, Attachment, Error, Family, Layer, Mac, Network, Result, Route, Runtime};
use remote::calls::Calls;
use remote::discover::PluginDirectories;
use remote::plugins::Plugins as Carrier;
use remote::{Remote, Settings};

use super::Opened;
use super::link_driver::LinkDriver;
use crate::time;

/// Below the state directory: pending cleanups must outlive a reboot.
const LEDGER: &str = "remote";
/// Below the runtime directory: notes of processes for each other about plugins.
const NOTES: &str = "remote";

/// The plugins of this host, for one thread.
pub(crate) struct Plugins {
    config: Arc<Config>,
    opened: Opened,
}

/// Third-party Docker plugins, and who carries calls to them.
pub struct Foreign {
    /// Their networks, attachments and addresses.
    pub remote: Remote,
    /// Carries the calls.
    pub calls: Arc<dyn Calls>,
}

/// The client for this host's configuration. Makes no call.
pub fn open(config: &Config, life: Life) -> Result<Foreign> {
    let given = &config.remote;
    let places = PluginDirectories {
        sockets: given.sockets.clone(),
        descriptions: given.descriptions.clone(),
    };
    let carrier = Carrier::new(places, given.timeout());
    let carrier = carrier.noting(config.store.runtime.join(NOTES));
    let calls: Arc<dyn Calls> = Arc::new(match life {
        Life::Short | Life::Childless => carrier.keeping_connections(),
        Life::Long => carrier,
    });
    let settings = Settings {
        timeout: given.timeout(),
        undo_log: config.store.state.join(LEDGER),
        sandboxes: given.sandboxes.clone(),
        boot: store::boot_id()?,
        now: time::now,
    };
    Ok(Foreign { remote: Remote::over(Arc::clone(&calls), settings), calls })
}

impl Plugins {
    /// As this host is configured.
    pub(crate) fn new(config: Arc<Config>, opened: Opened) -> Self {
        Self { config, opened }
    }

    /// The shared client of this process.
    pub(crate) fn foreign(&self) -> Result<Arc<Foreign>> {
        self.opened.foreign(&self.config)
    }

    /// Without an earlier call there is nothing to release, and so nothing fails.
    pub(super) fn pause(&self) {
        if let Ok(foreign) = self.foreign() {
            foreign.calls.pause();
        }
    }

    /// Without a choice among several the plugin's own default route is the sandbox's.
    fn set_gateway_by_itself(
        remote: &Remote,
        attachment: &Attachment,
        gateways: &[Family],
    ) -> Result<()> {
        if !gateways.is_empty() {
            remote.program_gateway(attachment, gateways)?;
        }
        inspect(remote, attachment);
        Ok(())
    }

    /// The plugin lets go before the interface comes back to the host.
    fn part(
        &self,
        attachment: &Attachment,
        undo: impl FnOnce(&Attachment) -> Result<()>,
    ) -> Result<()> {
        let made = self.on_host(attachment);
        let undone_there = self.foreign().and_then(|foreign| foreign.remote.leave(attachment));
        let undone = match made {
            Ok(made) => undo(&made),
            Err(error) => Err(error),
        };
        undone_there.and(undone)
    }
}

impl LinkDriver for Plugins {
    fn on_host<'a>(&self, attachment: &'a Attachment) -> Result<Cow<'a, Attachment>> {
        if is_ports(attachment) {
            return Ok(Cow::Owned(attachment.without_link()));
        }
        let made = self.foreign()?.remote.made(attachment)?;
        Ok(Cow::Owned(within(made.unwrap_or_else(|| attachment.without_link()))))
    }

    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        self.foreign()?.remote.offer(attachment)
    }

    /// The plugin first, then the kernel. A runtime that decides on the sandbox's default gateway
    /// says so before, or afterwards ([`LinkDriver::set_gateway`]).
    fn attach(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached> {
        if is_ports(attachment) {
            return self.publish(linux, attachment);
        }
        let remote = &self.foreign()?.remote;
        let joined = remote.join(attachment)?;
        let ways = ways_out(&joined.kernel);
        let mut made = linux.attach(&within(joined.kernel))?;
        if sets_gateway_by_itself(attachment) {
            // The runtime gets the default routes, and says with the published ports that it uses
            // one of them.
            made.routes.retain(|route| !route.is_default());
            made.routes.extend(ways);
            inspect(remote, attachment);
        } else if let Some(gateway_role) = &attachment.gateway_role {
            // The part that chooses the default gateway must know that this one is a candidate.
            let ways = remote.with_gateway(attachment, &joined.gateways)?.into_iter();
            let ways =
                ways.flat_map(|gateway_route| gateway_route.routes).filter(Route::is_default);
            made.routes.extend(ways);
            if !gateway_role.families.is_empty() {
                let mut at_once = joined.gateways;
                at_once.retain(|family| gateway_role.families.contains(family));
                remote.program_gateway(attachment, &at_once)?;
            }
        } else {
            Self::set_gateway_by_itself(remote, attachment, &joined.gateways)?;
        }
        Ok(Attached { keeps_in: joined.keeps_in, prefix: joined.prefix, ..made })
    }

    /// The kernel first: the default gateway must exist before published ports lead to it.
    fn set_gateway(
        &self,
        linux: &Linux,
        attachment: &Attachment,
        families: &[Family],
    ) -> Result<()> {
        let remote = &self.foreign()?.remote;
        if sets_gateway_by_itself(attachment) {
            return remote.program_gateway(attachment, families);
        }
        if let Some(made) = remote.with_gateway(attachment, families)? {
            linux.set_gateway(&within(made), families)?;
        }
        remote.program_gateway(attachment, families)
    }

    /// As it was before it joined.
    fn withdraw(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        if is_ports(attachment) {
            return self.unpublish(linux, attachment);
        }
        self.part(attachment, |made| linux.withdraw(made))
    }

    /// All of it is tried, whatever the first result: no work on this host waits for a plugin.
    fn detach(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        if is_ports(attachment) {
            return self.unpublish(linux, attachment);
        }
        let parted = self.part(attachment, |made| linux.detach(made));
        let ended = self.foreign().and_then(|foreign| foreign.remote.end(attachment));
        parted.and(ended)
    }

    fn check(&self, linux: &Linux, attachment: &Attachment, attached: &Attached) -> Result<()> {
        if is_ports(attachment) {
            return match attachment.is_published_by_plugin() {
                true => Ok(()),
                false => linux.check(&attachment.without_link(), attached),
            };
        }
        let made = self.foreign()?.remote.made(attachment)?.ok_or_else(|| {
            let id = &attachment.id;
            Error::not_found(format!("{id}: nothing says any more that its plugin connected it"))
        })?;
        linux.check(&within(made), attached)
    }

    fn presence(&self, linux: &Linux, attachment: &Attachment) -> Presence {
        if is_ports(attachment) {
            return linux.presence(&attachment.without_link());
        }
        match self.foreign().and_then(|foreign| foreign.remote.made(attachment)) {
            Ok(Some(made)) => linux.presence(&within(made)),
            Ok(None) | Err(_) => Presence::Doubtful,
        }
    }

    fn restore(&self, linux: &Linux, attachment: &Attachment) -> Result<bool> {
        match is_ports(attachment) {
            true => self.publish_again(linux, attachment),
            false => linux.restore(&*self.on_host(attachment)?),
        }
    }

    fn hardware_address(&self, _linux: &Linux, attachment: &Attachment) -> Option<Mac> {
        self.foreign().ok()?.remote.hardware_address(attachment)
    }

    fn status(&self, _linux: &Linux, network: &Network) -> Result<()> {
        self.foreign()?.remote.status(network)
    }

    fn create(&self, network: &Network) -> Result<()> {
        self.foreign()?.remote.create(network)
    }

    fn remove(&self, _linux: &Linux, network: &Network) -> Result<()> {
        self.foreign()?.remote.remove(network)
    }

    fn sets_gateway_at_once(&self) -> bool {
        true
    }
}

/// Ports that are published for a link which exists already: the plugin's to publish where it named
/// a gateway, as in libnetwork, and the kernel's otherwise.
impl Plugins {
    fn publish(&self, linux: &Linux, ports: &Attachment) -> Result<Attached> {
        let remote = &self.foreign()?.remote;
        let joined = link_of(ports);
        let gateways = remote.gateways(&joined)?;
        if gateways.is_empty() {
            return linux.attach(&ports.without_link());
        }
        remote.program_gateway(&joined, &gateways)?;
        let made = remote.with_gateway(&joined, &gateways)?;
        let routes = made.as_ref().map(ways_out).unwrap_or_default();
        Ok(Attached { addresses: ports.addresses.clone(), routes, ..Attached::default() })
    }

    /// The same where it may be so already.
    fn publish_again(&self, linux: &Linux, ports: &Attachment) -> Result<bool> {
        let remote = &self.foreign()?.remote;
        let joined = link_of(ports);
        let gateways = remote.gateways(&joined)?;
        match gateways.is_empty() {
            true => linux.restore(&ports.without_link()),
            false if remote.is_programmed(&joined)? => Ok(false),
            false => remote.program_gateway(&joined, &gateways).map(|()| true),
        }
    }

    /// For either publisher, and whether it still knows them: all of it is tried.
    fn unpublish(&self, linux: &Linux, ports: &Attachment) -> Result<()> {
        let revoked = self.foreign().and_then(|foreign| foreign.remote.revoke(&link_of(ports)));
        linux.detach(&ports.without_link()).and(revoked)
    }
}

/// libnetwork asks for it after each Join. The answer has no effect.
fn inspect(remote: &Remote, attachment: &Attachment) {
    let _ = remote.info(attachment);
}

/// The kernel's part, among the other interfaces of its container: default routes as far away as its
/// runtime ranks the interface, and none that another interface has.
fn within(mut made: Attachment) -> Attachment {
    // The plugin keeps an internal network internal.
    made.wiring.firewall = None;
    if sets_gateway_by_itself(&made) {
        made.routes.retain(|route| !route.is_default());
    }
    made.drop_routed();
    for family in [Family::V4, Family::V6] {
        let all = family.everything();
        let is_rank = |route: &Route| {
            route.dst == all
                && route.via.is_none()
                && route.scope.is_none()
                && route.priority.is_some()
        };
        let Some(place) = made.routes.iter().position(is_rank) else { continue };
        let rank = made.routes.remove(place).priority;
        for route in made.routes.iter_mut().filter(|route| route.dst == all) {
            route.priority = rank;
        }
    }
    made
}

/// Whether its runtime chooses the sandbox's default gateway, sets the default routes and names the
/// ports: Docker's controller.
fn sets_gateway_by_itself(attachment: &Attachment) -> bool {
    attachment.runtime == Runtime::Docker && attachment.gateway_role.is_none()
}

/// The default routes that the plugin named.
fn ways_out(joined: &Attachment) -> Vec<Route> {
    joined.routes.iter().filter(|route| route.is_default()).cloned().collect()
}

/// The link that these ports are of, as a plugin knows it, with the ports.
fn link_of(ports: &Attachment) -> Attachment {
    Attachment { layer: Layer::Link, ..ports.clone() }
}

/// Whether the record is that of ports which are published for a link of such a network.
fn is_ports(attachment: &Attachment) -> bool {
    attachment.layer == Layer::Publish
}

/// Whether the record is that of such a network's link, or of ports that are published for one.
pub(super) fn is_part(attachment: &Attachment) -> bool {
    matches!(attachment.layer, Layer::Link | Layer::Publish) && attachment.wiring.is_remote()
}
