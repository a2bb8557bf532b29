//! Endpoints of remote drivers: what libnetwork does with one from CreateEndpoint to DeleteEndpoint.

use std::collections::BTreeMap;

use engine::port::Offer;
use model::{
    Attachment, Error, ExternalInterface, Family, IfName, InterfaceAddress, IpNet, Link, LinkKind,
    Mac, RemoteLink, Result, Route,
};

use super::calls::{Failed, Fate};
use super::network::remote_link;
use super::undo_log::{At, JoinAnswer, KeptRoute, LogFile, Subject, Undo, digest, endpoint_id};
use super::{Joined, Remote, sandbox};
use libnetwork::parameters::{EndpointParameters, NetworkParameters};
use libnetwork::{
    Answer, Call, CreateEndpoint, EndpointGiven, EndpointOptions, Exposed, HostPorts, Interface,
    Join, Joined as Reported, PortBinding, Ports, StaticRoute,
};

impl Remote {
    /// CreateEndpoint, with the addresses and the hardware address that the attachment has. The offer
    /// holds these and what the driver added.
    pub fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        let doing = |error: Error| error.context(&attachment.id);
        self.create_endpoint(attachment).map_err(doing)
    }

    fn create_endpoint(&self, attachment: &Attachment) -> Result<Offer> {
        let link = remote_link(attachment.wiring.link.as_ref())?;
        let at = at(attachment, link);
        let interface = known(attachment);
        let create = CreateEndpoint {
            at: at.wire()?,
            interface,
            options: endpoint_options(attachment, link)?,
        };
        let mut log_file = self.begin(attachment)?;
        // What a dead process made is not known well enough.
        self.announce_on(&mut log_file, |undo| undo.class() < DELETE_ENDPOINT + 1)?;
        refuse_pending(&log_file)?;
        let undo = Undo::DeleteEndpoint(link.driver.clone(), at);
        log_file.hold(undo.clone());
        log_file.save()?;
        let given = match self.calls.call(&link.driver, &Call::CreateEndpoint(create)) {
            Ok(Answer::Endpoint { interface }) => interface,
            Ok(_) => EndpointGiven::default(),
            Err(failed) => {
                if !failed.may_be_done() {
                    log_file.strike(&undo);
                    log_file.save()?;
                }
                return Err(failed.into());
            }
        };
        add(attachment, &interface, &given)
    }

    /// Join. What is left is the kernel's.
    pub fn join(&self, attachment: &Attachment) -> Result<Joined> {
        let doing = |error: Error| error.context(&attachment.id);
        self.join_sandbox(attachment).map_err(doing)
    }

    fn join_sandbox(&self, attachment: &Attachment) -> Result<Joined> {
        let link = remote_link(attachment.wiring.link.as_ref())?;
        let sandbox = attachment.sandbox.as_ref().ok_or_else(|| {
            Error::invalid("a remote driver needs the namespace that an endpoint joins: name one")
        })?;
        let at = at(attachment, link);
        let mut log_file = self.begin(attachment)?;
        let key = self.name_sandbox(&mut log_file, &sandbox.path, &at.endpoint);
        let call = Call::Join(Join {
            at: at.wire()?,
            sandbox: key.clone(),
            ports: ports(attachment, link)?,
        });
        let undo = Undo::Leave(link.driver.clone(), at);
        if !log_file.holds(|held| *held == undo) {
            log_file.hold(undo.clone());
        }
        log_file.save()?;
        let named =
            sandbox::make(&key, &sandbox.path).map_err(|error| Failed::new(error, Fate::Unsent));
        let reported = match named.and_then(|()| self.calls.call(&link.driver, &call)) {
            Ok(Answer::Joined(reported)) => *reported,
            Ok(_) => Reported::default(),
            Err(failed) => {
                if !failed.may_be_done() {
                    log_file.strike(&undo);
                    sandbox::unname(&mut log_file);
                    log_file.save()?;
                }
                return Err(failed.into());
            }
        };
        let kept = kept(reported, attachment)?;
        log_file.record.joined = Some(kept.clone());
        log_file.save()?;
        // The kernel gets only those of its gateway role; they are default routes all the same.
        Ok(Joined {
            kernel: kernel(attachment, &kept, |_| true),
            keeps_in: kept.keeps_in,
            gateways: kept.ways_out(),
            prefix: kept.prefix,
        })
    }

    /// The kernel's part of an attachment that has joined, from the undo log; `None` where it has
    /// not. Makes no call.
    pub fn made(&self, attachment: &Attachment) -> Result<Option<Attachment>> {
        Ok(self.kept(attachment)?.map(|kept| kernel(attachment, &kept, |_| true)))
    }

    /// The same with the default routes of these families and no others: for the kernel's part of
    /// leading the sandbox out ([`engine::port::Driver::set_gateway`]).
    pub fn with_gateway(
        &self,
        attachment: &Attachment,
        families: &[Family],
    ) -> Result<Option<Attachment>> {
        let leads = |family| families.contains(&family);
        Ok(self.kept(attachment)?.map(|kept| kernel(attachment, &kept, leads)))
    }

    pub(super) fn kept(&self, attachment: &Attachment) -> Result<Option<JoinAnswer>> {
        let record = self.undo_log.peek(&subject(attachment).key())?;
        let record = record.filter(|record| !record.is_of_another_boot(&self.undo_log));
        Ok(record.and_then(|record| record.joined))
    }

    /// Before the kernel's part is undone: RevokeExternalConnectivity, where ports are published, and
    /// Leave; as [`Remote::remove_pools`].
    pub fn leave(&self, attachment: &Attachment) -> Result<()> {
        self.announce(&subject(attachment), |undo| undo.class() < DELETE_ENDPOINT)
    }

    /// Once the interface is back in the host's namespace: DeleteEndpoint; as
    /// [`Remote::remove_pools`].
    pub fn end(&self, attachment: &Attachment) -> Result<()> {
        self.announce(&subject(attachment), |undo| undo.class() <= DELETE_ENDPOINT)
    }

    /// EndpointOperInfo: whatever the driver says of an endpoint.
    pub fn info(&self, attachment: &Attachment) -> Result<BTreeMap<String, String>> {
        let link = remote_link(attachment.wiring.link.as_ref())?;
        let call = Call::EndpointOperInfo(at(attachment, link).wire()?);
        match self.calls.call(&link.driver, &call) {
            Ok(Answer::Info { value }) => Ok(value),
            Ok(_) => Ok(BTreeMap::new()),
            Err(failed) => Err(Error::from(failed).context(&attachment.id)),
        }
    }

    /// The hardware address that the attachment's interface has, so far as a driver or we chose it.
    pub fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        attachment.wiring.link.as_ref().and_then(|link| link.mac)
    }

    /// The attachment's log file, once no cleanup of an earlier attachment of the same identity is
    /// pending.
    pub(super) fn begin(&self, attachment: &Attachment) -> Result<LogFile> {
        let mut log_file = self.undo_log.open(subject(attachment))?;
        self.clean(&mut log_file)?;
        Ok(log_file)
    }
}

/// See [`Undo::class`].
const DELETE_ENDPOINT: u8 = 2;

impl JoinAnswer {
    /// The families with a gateway or a static default route.
    fn ways_out(&self) -> Vec<Family> {
        let routed =
            self.routes.iter().filter(|route| route.dst.prefix_len() == 0 && route.via.is_some());
        let mut families: Vec<Family> = routed.map(|route| Family::of(&route.dst)).collect();
        families.extend(self.gateway_v4.map(|_| Family::V4));
        families.extend(self.gateway_v6.map(|_| Family::V6));
        families.sort_unstable();
        families.dedup();
        families
    }

    /// The families of which the driver named a gateway.
    pub(super) fn gateways(&self) -> Vec<Family> {
        let v4 = self.gateway_v4.map(|_| Family::V4);
        v4.into_iter().chain(self.gateway_v6.map(|_| Family::V6)).collect()
    }

    fn gateway(&self, family: Family) -> Option<std::net::IpAddr> {
        match family {
            Family::V4 => self.gateway_v4.map(Into::into),
            Family::V6 => self.gateway_v6.map(Into::into),
        }
    }
}

/// The attachment's log file.
pub(super) fn subject(attachment: &Attachment) -> Subject {
    Subject::Attachment(attachment.id.clone(), attachment.layer)
}

/// The driver's ids of the endpoint.
pub(super) fn at(attachment: &Attachment, link: &RemoteLink) -> At {
    let endpoint = endpoint_id(&attachment.id, link.id.as_str());
    At { network: link.id.to_string(), endpoint }
}

/// The hardware address that an interface gets which needs one before it is there: a function of the
/// identity.
pub(super) fn chosen_mac(attachment: &Attachment) -> Mac {
    let digest = digest(&["hardware", &endpoint_id(&attachment.id, "")]);
    let octet = |n: usize| u8::from_str_radix(&digest[2 * n..2 * n + 2], 16).unwrap_or_default();
    Mac::local(std::array::from_fn(octet))
}

/// The ports that the attachment publishes and offers; none on an internal network.
pub(super) fn ports(attachment: &Attachment, link: &RemoteLink) -> Result<Ports> {
    if NetworkParameters::read(&link.network)?.internal {
        return Ok(Ports::default());
    }
    let published = attachment.wiring.publish.iter().flat_map(|publish| &publish.ports);
    let bindings: Vec<PortBinding> = published
        .map(|map| PortBinding {
            protocol: map.protocol,
            port: map.container_port,
            address: None,
            host: map.host,
            host_ports: HostPorts::Range(map.host_port, map.host_port),
        })
        .collect();
    let parameters = EndpointParameters::read(&link.endpoint)?.exposed;
    let mut exposed: Vec<Exposed> = parameters.into_iter().map(Exposed::from).collect();
    exposed.extend(bindings.iter().map(|one| Exposed { protocol: one.protocol, port: one.port }));
    exposed.sort_unstable();
    exposed.dedup();
    Ok(Ports { exposed, bindings })
}

fn endpoint_options(attachment: &Attachment, link: &RemoteLink) -> Result<EndpointOptions> {
    let parameters = EndpointParameters::read(&link.endpoint)?;
    let own = attachment.wiring.link.as_ref();
    let chosen = chosen_mac(attachment);
    Ok(EndpointOptions {
        ports: ports(attachment, link)?,
        dns: parameters.dns,
        mac: own.and_then(|link| link.mac).filter(|mac| *mac != chosen),
        ifname: own.and_then(|link| link.name.clone()),
        sysctls: Vec::new(),
        driver: parameters.options,
    })
}

/// The interface as far as it is known.
fn known(attachment: &Attachment) -> Interface {
    Interface {
        ipv4: attachment.first(Family::V4),
        ipv6: attachment.first(Family::V6),
        mac: attachment.wiring.link.as_ref().and_then(|link| link.mac),
    }
}

/// The known properties and those that the driver added. It may neither repeat nor change those
/// that it got.
fn add(attachment: &Attachment, known: &Interface, given: &EndpointGiven) -> Result<Offer> {
    let again = |what: &str, reported: String| {
        Error::invalid(format!(
            "the driver got the endpoint's {what} and answered with {reported}: it may only name \
             what was left open"
        ))
    };
    let mut addresses = attachment.addresses.clone();
    let mut take = |what, known: Option<IpNet>, given: Option<IpNet>| match (known, given) {
        (Some(_), Some(given)) => Err(again(what, given.to_string())),
        (None, Some(address)) => {
            addresses.push(InterfaceAddress { address, gateway: None, interface: None });
            Ok(())
        }
        (_, None) => Ok(()),
    };
    take("IPv4 address", known.ipv4, given.ipv4.map(IpNet::V4))?;
    take("IPv6 address", known.ipv6, given.ipv6.map(IpNet::V6))?;
    let mut link = attachment.wiring.link.clone();
    match (known.mac, given.mac) {
        (Some(_), Some(mac)) => return Err(again("hardware address", mac.to_string())),
        (None, Some(mac)) => {
            if let Some(link) = &mut link {
                link.mac = Some(mac);
            }
        }
        (_, None) => {}
    }
    Ok(Offer { addresses, routes: Vec::new(), dns: model::Dns::default(), link })
}

/// The part of Join's answer that is needed later.
fn kept(reported: Reported, attachment: &Attachment) -> Result<JoinAnswer> {
    let prefix = reported.interface.as_ref().map(|moved| moved.prefix.as_str());
    let prefix = prefix.filter(|prefix| !prefix.is_empty());
    let prefix = prefix
        .map(str::parse::<IfName>)
        .transpose()
        .map_err(|error| error.context(format!("the driver's DstPrefix for {}", attachment.id)))?;
    let routes = reported.routes.into_iter().map(|route| match route {
        StaticRoute::Via(dst, via) => KeptRoute { dst, via: Some(via) },
        StaticRoute::Connected(dst) => KeptRoute { dst, via: None },
    });
    Ok(JoinAnswer {
        source: reported.interface.map(|moved| moved.from),
        prefix,
        gateway_v4: reported.gateway,
        gateway_v6: reported.gateway_v6,
        routes: routes.collect(),
        keeps_in: reported.no_gateway_service,
    })
}

/// The kernel's part: the record, with Join's answer. `leads` says of which families it has the
/// default routes now.
fn kernel(
    attachment: &Attachment,
    kept: &JoinAnswer,
    leads: impl Fn(Family) -> bool,
) -> Attachment {
    let mut made = attachment.clone();
    let is_led = attachment.gateway_role.is_some();
    made.wiring.link = match (&made.wiring.link, &kept.source) {
        (Some(link), Some(source)) => {
            // A runtime that names its interfaces by itself is not answered with another name.
            let prefix = kept.prefix.clone().filter(|_| is_led && link.name.is_none());
            let kind =
                LinkKind::ExternalInterface(ExternalInterface { source: source.clone(), prefix });
            Some(Link { kind, ..link.clone() })
        }
        _ => None,
    };
    for family in [Family::V4, Family::V6] {
        let mut held = made.addresses.iter_mut();
        if let Some(first) = held.find(|held| Family::of(&held.address) == family) {
            first.gateway = kept.gateway(family);
        }
        let gateway = kept.gateway(family).map(|via| Route::new(family.everything(), Some(via)));
        made.routes.extend(gateway);
    }
    let is_taken = |route: &KeptRoute| {
        route.dst.prefix_len() == 0 && kept.gateway(Family::of(&route.dst)).is_some()
    };
    let parameters = kept.routes.iter().filter(|route| !is_taken(route));
    made.routes.extend(parameters.map(|route| match route.via {
        Some(via) => Route::new(route.dst, Some(via)),
        // Without a next hop: none given would mean the gateway.
        None => Route { scope: Some(Route::ON_LINK), ..Route::new(route.dst, None) },
    }));
    made.routes.retain(|route| !route.is_default() || leads(Family::of(&route.dst)));
    made.drop_routed();
    // A driver that names a gateway publishes; otherwise the sandbox has another default gateway.
    if is_led || !kept.gateways().is_empty() {
        made.wiring.publish = None;
    }
    made
}

fn refuse_pending(log_file: &LogFile) -> Result<()> {
    let mut entries = log_file.record.entries.iter();
    let pending = entries.find_map(|entry| {
        (entry.undo.class() <= DELETE_ENDPOINT).then_some((&entry.undo, entry.pending.as_ref()?))
    });
    pending.map_or(Ok(()), |(undo, pending)| {
        Err(Error::try_again(format!(
            "a cleanup is pending at plugin {}: {undo}: {}",
            undo.driver(),
            pending.error
        )))
    })
}
