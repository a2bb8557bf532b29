//! The kernel's wire: the only crate that speaks netlink.

pub mod address;
mod announce;
mod bridge;
pub mod bridge_vlan;
pub mod capture;
pub mod conntrack;
mod counters;
mod decode;
pub mod diag;
mod ethtool;
pub mod fdb;
pub mod hold;
mod host_lock;
pub mod link;
pub mod monitor;
mod named;
mod namespace_lock;
pub mod neighbour;
mod netns;
pub mod nft;
mod outcome;
pub mod packet;
mod packet_log;
mod parameters;
pub mod ping;
pub mod probe;
pub mod process;
mod reap;
mod removal;
pub mod route;
mod route_lookup;
pub mod rule;
mod socket;
mod sys;
pub mod sysctl;
pub mod traffic;
mod vrf;
pub mod wire;
pub mod wireguard;
pub mod xtables;

pub use address::{Address, NewAddress};
pub use announce::Announcement;
pub use bridge::{BridgeSettings, Forwarded};
pub use counters::{Count, Counters};
pub use decode::decode_anything;
pub use host_lock::{HostLock, HostLocked};
pub use link::{
    At, Change, DeviceKind, Flags, Function, Link, Links, NewBridge, NewDevice, NewTap, NewVxlan,
    OperState, Peer, Sharing, Tap, Veth,
};
pub use monitor::{Event, Monitor, Stop, Wake};
pub use namespace_lock::{NamespaceLock, lock_within};
pub use neighbour::Neighbour;
pub use netns::Netns;
pub use outcome::{Failure, Outcome, reason};
pub use packet_log::{Logged, PacketLog};
pub use parameters::Parameters;
pub use reap::{Reaper, close_at_end, delete_links, reap};
pub use removal::{remove_tree, remove_tree_at};
pub use route::{Existing, Route, Routes};
pub use route_lookup::{RouteLookup, Routed, Transport};
pub use rule::{Led, Rule, Then, Unmarked, WayRule};
pub use rustix::io::Errno;
pub use socket::{Socket, TIMEOUT};
pub use sys::{close_all_but, set_mark};
pub use vrf::Vrf;
