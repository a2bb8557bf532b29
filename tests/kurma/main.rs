//! Networks whose plugins come out of images: the acceptance cases of Kurma, each named by its
//! label in the collection of facts about the original (T templates, A provision, D deprovision, N
//! networking pod, I images, X interop), observed in the original unless it says *ours*.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod bombs;
mod choice;
mod containerd;
mod deprovision;
mod doctor;
mod engines;
mod foreign;
mod hang;
mod hostile;
mod images;
mod killed;
mod left;
mod namespaces;
mod plugins;
mod proxy;
mod registry;
mod restart;
mod rootless;
mod runtimes;
mod seed;

/// The pod of most tests.
const U: &str = "146d7cef-fbf6-41da-a2f8-eba218597f9c";

/// Another pod.
fn uuid(number: usize) -> String {
    format!("{number:08x}-fbf6-41da-a2f8-eba218597f9c")
}
