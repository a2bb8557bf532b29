//! The requested properties of a network.
//!
//! [`OPTIONS`] is the table of options: their names in each front end, the drivers that have them,
//! how a value is read, and their text in the manual. Docker's and Podman's `-o`, the fields of
//! CNI's type `spoke`, the flags of `spoke network create` and the tables in `docs/` come from it.
//! [`NetworkSpec`] holds their values, and [`NetworkSpec::wiring`] is the network's wiring.

mod docs;
mod driver;
mod many;
mod network;
pub mod neutron;
mod option;
pub mod ovs;
mod table;
mod texts;
mod value;
mod words;

pub use docs::{BEGIN, END, Listing, PAGES, document};
pub use driver::Driver;
pub use many::{
    ManyHosts, ManyHostsSpec, is_of_many_hosts, is_rule, lacks, refuse_others, take_rules,
};
pub use network::{DefaultRoute, Frame, KindSpec, NetworkSpec, Source};
pub use neutron::{NEUTRON_KEYS, NeutronOptions};
pub use option::{FrontEnd, NetworkOption};
pub use ovs::OVS_KEYS;
pub use table::{OPTIONS, find, foreign, of_routed, options};
pub use texts::Texts;
pub use value::{Slot, Value};
pub use words::HOSTS;
