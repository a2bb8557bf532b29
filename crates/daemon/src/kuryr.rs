//! The plugin kuryr: kuryr-libnetwork's calls, served beside those of our own plugin.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use config::{Config, KuryrConfig, Level, TcpConfig};
use docker::kuryr::{Backstage, Kuryr, Settings};
use docker::server::{Listener, Plugin};
use engine::port::Cloud;
use libnetwork::AddressSpaces;
use model::Result;

use super::docker_backend::{Stage, ephemeral_here, scope_of};
use super::docker_tcp::{self, Spec};
use super::{Daemon, DaemonEnd, Listeners, Serving};
use crate::sockets::{self, Inherited};

/// Docker's unanswered calls, below the runtime directory.
const CALLS: &str = "calls-kuryr";
/// What was said of pools that networks are yet to be made of, below the runtime directory.
const POOLS: &str = "pools-kuryr";

impl Listeners {
    /// Listens for the plugin, if it is served: systemd passes its socket beside the other one, and
    /// they are distinguished by their places.
    pub(super) fn open_kuryr(&mut self, config: &Config, inherited: &mut Inherited) -> Result<()> {
        let kuryr = &config.kuryr;
        let passed = take(inherited, kuryr);
        if !kuryr.enabled {
            return Ok(());
        }
        let listener = match passed {
            Some(listener) => listener,
            None => self.bind(&kuryr.socket)?,
        };
        self.kuryr.push(Listener::Unix(listener));
        if let Some(address) = kuryr.listen {
            self.kuryr.push(Listener::Tcp(bind_tcp(inherited, address)?));
            let spec = kuryr.spec.as_ref().map(|path| Spec::plain(path, address)).transpose()?;
            self.specs.extend(spec);
        }
        if let Some(tcp) = &kuryr.tcp {
            self.open_kuryr_tls(tcp, inherited)?;
        }
        Ok(())
    }

    fn open_kuryr_tls(&mut self, tcp: &TcpConfig, inherited: &mut Inherited) -> Result<()> {
        let tls = docker_tcp::tls(tcp)?;
        self.kuryr.push(Listener::Tls(bind_tcp(inherited, tcp.listen)?, tls));
        let spec = tcp.spec.as_ref().map(|spec| Spec::write(spec, tcp)).transpose()?;
        self.specs.extend(spec);
        Ok(())
    }
}

/// The unix socket that was passed for the plugin, which the others are not for.
fn take(inherited: &mut Inherited, kuryr: &KuryrConfig) -> Option<UnixListener> {
    let is_it = |listener: &UnixListener| {
        let address = listener.local_addr().ok();
        address.is_some_and(|address| address.as_pathname() == Some(&kuryr.socket))
    };
    let at = inherited.unix.iter().position(is_it)?;
    Some(inherited.unix.remove(at))
}

/// The one that was passed, or else one of our own.
fn bind_tcp(
    inherited: &mut Inherited,
    address: std::net::SocketAddr,
) -> Result<std::net::TcpListener> {
    let is_it =
        |listener: &std::net::TcpListener| listener.local_addr().is_ok_and(|at| at == address);
    match inherited.tcp.iter().position(is_it) {
        Some(at) => Ok(inherited.tcp.remove(at)),
        None => sockets::bind_tcp(address),
    }
}

impl Daemon {
    pub(super) fn serve_kuryr(
        self: &Arc<Self>,
        listeners: Vec<Listener>,
        stop: &docker::server::Stop,
        ended: &Sender<DaemonEnd>,
    ) -> Result<Option<JoinHandle<()>>> {
        if listeners.is_empty() {
            return Ok(None);
        }
        let plugin = self.kuryr()?;
        self.serve_plugin(Serving { name: "kuryr", plugin, listeners, calls: CALLS }, stop, ended)
    }

    /// Reports the settings of kuryr.conf without an effect. An unreadable file is reported
    /// elsewhere.
    pub(super) fn report_passed_over(&self) {
        let config = self.context_pool.config();
        let Some(cloud) = &config.neutron else { return };
        let given = cloud.settings(&config.kuryr, &|name| std::env::var(name).ok());
        for note in given.into_iter().flat_map(|given| given.notes) {
            self.journal.log.say(Level::Warn, &format!("kuryr.conf: {note}"), &[]);
        }
    }

    /// The plugin that Docker calls kuryr. It needs neither the cloud nor its credentials: engines
    /// are answered while Neutron is down.
    fn kuryr(self: &Arc<Self>) -> Result<Arc<dyn Plugin>> {
        let variable = |name: &str| std::env::var(name).ok();
        let settings = settings(self.context_pool.config(), &variable)?;
        let pools = self.context_pool.config().store.runtime.join(POOLS);
        Ok(Arc::new(Kuryr::new(Stage(Arc::clone(self)), settings).keeping(pools)))
    }
}

fn settings(config: &Config, variable: &dyn Fn(&str) -> Option<String>) -> Result<Settings> {
    let kuryr = &config.kuryr;
    // An unreadable setting is reported by the part that needs the cloud.
    let given = config.neutron.as_ref().map(|cloud| cloud.settings(kuryr, variable));
    let given = given.and_then(Result::ok).map(|given| given.plugin).unwrap_or_default();
    let [local, global] = kuryr.spaces(&given)?;
    // A port that is bound already keeps its hardware address.
    let makes_ahead = config.neutron.as_ref().is_some_and(|cloud| cloud.stock.is_some());
    Ok(Settings {
        scope: scope_of(kuryr.scope(&given, variable)?),
        requires_mac: kuryr.requires_mac_address.unwrap_or(!makes_ahead),
        spaces: AddressSpaces { local, global },
        prefix: kuryr.prefix(&given),
        exposes: kuryr.process_external_connectivity,
        publishes: kuryr.publish_ports,
        backend: config.firewall.backend,
        ephemeral: ephemeral_here(),
    })
}

impl Backstage for Stage {
    fn with_cloud<T>(&self, work: impl FnOnce(&dyn Cloud) -> Result<T>) -> Result<T> {
        work(&*self.0.context_pool.neutron()?)
    }
}
