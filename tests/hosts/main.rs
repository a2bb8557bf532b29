//! Many hosts: each is a world of its own, on one segment with a real etcd.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod authority;
mod bed;
mod check;
mod churn;
mod clock;
mod cut;
mod drain;
mod each_runtime;
mod encrypt;
mod engines;
mod failure;
mod flow;
mod guard;
mod ipv6;
mod isolated;
mod isolation;
mod kept;
mod kurma;
mod later;
mod lists;
mod member;
mod membership;
mod names;
mod network;
mod own;
mod pins;
mod returned;
mod routes;
mod runtimes;
mod six;
mod sticky;
mod swarm;
mod tls;
mod unanswered;
mod upgrade;
