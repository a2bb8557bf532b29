//! DEL where the image cannot be had.

use std::time::Duration;

use kurma::exec_cni::{self, Shown, Tenancy};
use kurma::plugin::{Direct, Wanted};
use netlink::Netns;
use serde_json::json;

use crate::spy::{Spy, in_a_world};

/// The image ran once, and cannot be had any more: a DEL succeeds where no ADD has reached the plugin, and nowhere else,
/// also after the namespace was cleared.
#[test]
fn a_del_without_the_image_succeeds_for_what_the_plugin_never_saw() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        let wanted = Wanted::image("file:///spy".parse().unwrap(), Vec::new(), Default::default());
        let netns = spy.directory().join("ns");
        Netns::make(&netns).unwrap();
        let [seen, unseen] =
            ["c", "d"].map(|container| Shown::new(netns.to_str().unwrap(), &[container, "eth0"]));
        let plugin = "echoes".parse().unwrap();
        let call = Direct {
            plugin: &plugin,
            environment: &[],
            input: b"",
            limit: Duration::from_secs(20),
        };
        let run = |shown, tenancy| exec_cni::run(&spy.pod, &wanted, &call, shown, tenancy);
        run(&seen, Tenancy::Stays).unwrap();
        spy.pod.down_all().unwrap();
        let volume = &spy.pod.directories.netns;
        Netns::unmake(&volume.join(&seen.name)).unwrap();
        spy.withdraw_images(true);
        run(&unseen, Tenancy::Stays).unwrap_err();
        run(&unseen, Tenancy::Ends).unwrap();
        run(&seen, Tenancy::Ends).unwrap_err();
        spy.withdraw_images(false);
        run(&seen, Tenancy::Ends).unwrap();
        let marks = spy.pod.directories.runtime.join("called");
        assert_eq!(std::fs::read_dir(marks).unwrap().count(), 0);
        spy.pod.down_all().unwrap();
    });
}
