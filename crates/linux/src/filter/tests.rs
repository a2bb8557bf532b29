//! In private namespaces: the table beside what nft(8) makes of `ruleset.nft`, and real traffic.

mod behind;
mod busy;
mod common;
mod counted;
mod crowd;
mod egress;
mod fence;
mod follow;
mod foreign;
mod life;
mod names;
mod quota;
mod sandbox_names;
mod shut;
pub(crate) mod space;
mod table;
mod traffic;
mod transit;
mod via;
