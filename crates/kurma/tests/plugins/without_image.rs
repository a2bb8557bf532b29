//! DEL where the image cannot be had.

use std::fs::File;
use std::time::{Duration, SystemTime};

use container::Ended;
use kurma::exec_cni::{self, Shown, Tenancy};
use kurma::plugin::{Direct, PluginSpec};
use model::Result;
use netlink::Netns;
use serde_json::json;

use crate::spy::{Spy, in_a_world};

/// Calls a plugin out of the image for a container.
fn call(spy: &Spy, shown: &Shown, tenancy: Tenancy) -> Result<Ended> {
    let wanted = PluginSpec::image("file:///spy".parse().unwrap(), Vec::new(), Default::default());
    let plugin = "echoes".parse().unwrap();
    let limit = Duration::from_secs(20);
    let call = Direct { plugin: &plugin, environment: &[], input: b"", limit };
    exec_cni::run(&spy.pod, &wanted, &call, shown, tenancy)
}

/// The image ran once, and cannot be had any more: a DEL succeeds where no ADD has reached the plugin, and nowhere else,
/// also after the namespace was cleared.
#[test]
fn a_del_without_the_image_succeeds_for_what_the_plugin_never_saw() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        let netns = spy.directory().join("ns");
        Netns::make(&netns).unwrap();
        let [seen, unseen] =
            ["c", "d"].map(|container| Shown::new(netns.to_str().unwrap(), &[container, "eth0"]));
        let run = |shown, tenancy| call(&spy, shown, tenancy);
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

/// DEL never comes: the mark goes a day after the last call, and not before.
#[test]
fn a_mark_ends_a_day_after_its_container() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        let netns = spy.directory().join("ns");
        Netns::make(&netns).unwrap();
        let shown = Shown::new(netns.to_str().unwrap(), &["c", "eth0"]);
        let end = || call(&spy, &shown, Tenancy::Ends);
        let run = || call(&spy, &shown, Tenancy::Stays).unwrap();
        let directories = &spy.pod.directories;
        let mark = directories.runtime.join("called").join(&shown.name);
        let age = || {
            let long_ago = SystemTime::now() - Duration::from_secs(3 * 24 * 60 * 60);
            File::options().append(true).open(&mark).unwrap().set_modified(long_ago).unwrap();
        };
        let forget = || exec_cni::forget(directories).unwrap();
        run();
        age();
        assert_eq!(forget(), Vec::<String>::new(), "its namespace is shown");
        run();
        Netns::unmake(&directories.netns.join(&shown.name)).unwrap();
        assert_eq!(forget(), Vec::<String>::new(), "it was called now");
        age();
        spy.pod.down_all().unwrap();
        spy.withdraw_images(true);
        end().unwrap_err();
        assert_eq!(
            forget(),
            Vec::<String>::new(),
            "its DEL came now, and fails for want of the image"
        );
        age();
        assert_eq!(exec_cni::forgotten(directories).unwrap(), std::slice::from_ref(&shown.name));
        assert_eq!(forget(), std::slice::from_ref(&shown.name));
        assert!(!mark.exists());
        spy.pod.down_all().unwrap();
    });
}
