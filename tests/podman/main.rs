//! Podman 5 with Spoke as netavark's plugin, in every version that is to be had: containers get
//! their network, refusals reach the person who asked, and nothing stays.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Each test with each Podman, so that they run side by side.
macro_rules! with_each_podman {
    ($($test:ident),+) => {
        mod v5_4 {
            $(#[test]
            fn $test() {
                if let Some(podman) = tests::Podman5::new(tests::PodmanRelease::V5_4) {
                    super::$test(&podman);
                }
            })+
        }
        mod v5_8 {
            $(#[test]
            fn $test() {
                if let Some(podman) = tests::Podman5::new(tests::PodmanRelease::V5_8) {
                    super::$test(&podman);
                }
            })+
        }
    };
}

mod common;
mod killed;
mod lan;
mod life;
mod ovs;
mod ranges;
mod refusal;
mod segment;
mod tenant;
mod two;
