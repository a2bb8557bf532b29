//! The driver that Spoke serves.

use tests::{Held, Host, Plugins, Serve, World};

use crate::{ended, names, test};

#[test]
fn what_we_serve_violates_nothing() {
    let world = World::new(&Plugins::subject());
    let _serve = Serve::start(&world, &[]);
    let verdicts = test(&world, "spoke");
    assert_eq!(ended(&verdicts, "fail"), Default::default());
    // The reference says that a pool may be asked for twice; Docker's own driver and ours refuse
    // what is another network's.
    assert_eq!(names(&verdicts, "warn"), ["pool-repeated"]);
    // It is no driver of swarm's scope, and no test restarts it here.
    assert_eq!(names(&verdicts, "skipped"), ["ipam-restart", "restart", "swarm-allocate"]);
    assert!(names(&verdicts, "pass").len() > 60, "{verdicts:#?}");
}

/// Killed in the middle of a container's life, with its socket held, as its units run it.
#[test]
fn a_restart_changes_nothing() {
    let world = World::new(&Plugins::subject());
    let held = Held::start(&world, &[]);
    let kill = format!("kill -9 $(pgrep -f \"^{}/spoke serve\")", Plugins::MOUNT);
    let verdicts = test(&world, &format!("spoke --only restart --restart '{kill}'"));
    assert_eq!(names(&verdicts, "pass"), ["ipam-restart", "restart"], "{}", held.log());
}

#[test]
fn it_leaves_the_host_as_it_was() {
    let host = Host::now();
    let world = World::new(&Plugins::subject());
    let serve = Serve::start(&world, &[]);
    let links = || world.sh("ip -o link show | wc -l; ls /run/netns 2>/dev/null | wc -l");
    let before = links();
    test(&world, "spoke --only life --only endpoint --only sandbox");
    assert_eq!(links(), before);
    drop(serve);
    drop(world);
    assert_eq!(Host::now().changes(&host), Vec::<String>::new());
}

#[test]
fn addresses_of_the_engine_do_as_well() {
    let world = World::new(&Plugins::subject());
    let _serve = Serve::start(&world, &[]);
    let verdicts = test(&world, "spoke --no-ipam");
    assert_eq!(ended(&verdicts, "fail"), Default::default());
    assert!(names(&verdicts, "skipped").contains(&"exhaustion"));
}
