//! The back end for remote drivers against a plugin in memory: the order of calls, the way back from
//! every failure, and what the ledger remembers.

mod faults;
mod ledger;
mod model;
mod order;
mod pools;
mod rig;
mod wrong;
