//! The plugin is killed anywhere, called twice, and called for what is gone.

use tests::{Plugins, Snapshot, World};

use crate::common::{call, exec};
use crate::segment::{Server, plug, start_daemon};

fn quiet(world: &World) -> Snapshot {
    let mut snapshot = Snapshot::of(world);
    snapshot.lines.retain(|line| {
        let of_the_host = [" sysctl ipv4/ip_forward", "/forwarding =", "file /var/lib/spoke/"];
        !line.contains("file /run/spoke/") && !of_the_host.iter().any(|part| line.contains(part))
    });
    snapshot
}

/// `kill -9` at every fourth system call that changes something, until a setup gets through.
#[test]
fn killed_at_any_moment() {
    let world = World::new(&Plugins::subject());
    let document = exec("c1");
    let netns = world.netns("c1");
    let first = call(&world, "", &format!("setup {netns}"), &document);
    assert_eq!(first.status, 0, "{first:?}");
    assert_eq!(call(&world, "", &format!("teardown {netns}"), &document).status, 0);
    let before = quiet(&world);
    for when in (1..400).step_by(4) {
        let over = format!(
            "strace -f -o /dev/null -e inject=sendto,sendmsg,rename,renameat,renameat2,unlink,\
             unlinkat,setns,openat:signal=KILL:when={when}"
        );
        let killed = call(&world, &over, &format!("setup {netns}"), &document);
        let again = call(&world, "", &format!("teardown {netns}"), &document);
        assert_eq!(again.status, 0, "teardown after {when}: {again:?}");
        let changes = quiet(&world).changes(&before);
        assert!(changes.is_empty(), "killed at {when}:\n{}", changes.join("\n"));
        if killed.status == 0 {
            return;
        }
        // The next call takes over what is left, without a teardown between.
        let _ = call(&world, &over, &format!("setup {netns}"), &document);
        let next = call(&world, "", &format!("setup {netns}"), &document);
        let done = next.status == 0 || next.stdout.contains("already exists");
        assert!(done, "setup after {when}: {next:?}");
        assert_eq!(call(&world, "", &format!("teardown {netns}"), &document).status, 0);
    }
    panic!("a setup has fewer system calls than that");
}

/// The same while the segment's server is asked: it has every address again.
#[test]
fn killed_while_it_asks() {
    let world = World::new(&Plugins::subject());
    plug(&world);
    let server = Server::start(&world);
    start_daemon(&world);
    let mut document = exec("c1");
    document["network"]["options"] =
        serde_json::json!({"mode": "dhcp", "parent": "eth0", "host_access": "true"});
    for said in ["subnets", "network_interface"] {
        document["network"][said] = serde_json::Value::Null;
    }
    let netns = world.netns("c1");
    for when in 1..200 {
        let over = format!(
            "strace -f -o /dev/null -e inject=sendto,sendmsg,connect,write,read,rename,renameat,\
             renameat2,unlink,unlinkat,setns,openat:signal=KILL:when={when}"
        );
        let killed = call(&world, &over, &format!("setup {netns}"), &document);
        let again = call(&world, "", &format!("teardown {netns}"), &document);
        assert_eq!(again.status, 0, "teardown after {when}: {again:?}");
        server.wait(str::is_empty);
        let links = world.sh("ip -n c1 -o link");
        assert_eq!(links.lines().count(), 1, "killed at {when}: {links}");
        let kept = world.sh("ls /run/spoke/dhcp/*");
        assert_eq!(kept.trim(), "lock", "killed at {when}");
        if killed.status == 0 {
            world.sh("kill $(cat /run/dhcp.pid)");
            return;
        }
    }
    panic!("a setup has fewer system calls than that");
}

/// The network that the container joined under a name of Podman's cannot be read any more: the record of
/// the attachment says which one it is.
#[test]
fn what_joined_an_unreadable_network_goes() {
    let world = World::new(&Plugins::subject());
    let spoke = format!("{}/spoke", Plugins::MOUNT);
    world.sh(&format!("{spoke} network create --subnet 10.89.7.0/24 front"));
    let mut document = exec("c1");
    document["network"]["name"] = "theirs".into();
    document["network"]["options"] = serde_json::json!({"network": "front"});
    let netns = world.netns("c1");
    let made = call(&world, "", &format!("setup {netns}"), &document);
    assert_eq!(made.status, 0, "{made:?}");
    let records = "/var/lib/spoke/networks/front /run/spoke/configured/front";
    world.sh(&format!("for file in {records}; do test ! -e $file || echo damaged >$file; done"));
    let unread = world.try_sh(&format!("{spoke} network inspect front"));
    assert_ne!(unread.status, 0, "{unread:?}");
    let gone = call(&world, "", &format!("teardown {netns}"), &document);
    assert_eq!(gone.status, 0, "{gone:?}");
    let links = world.sh("ip -n c1 -o link");
    assert_eq!(links.lines().count(), 1, "{links}");
    let left = world.sh(&format!("{spoke} ps -o json"));
    assert_eq!(left.trim(), "[]");
}

#[test]
fn what_is_gone_is_done() {
    let world = World::new(&Plugins::subject());
    let (document, netns) = (exec("c1"), world.netns("c1"));
    let teardown = |document| call(&world, "", &format!("teardown {netns}"), document);
    assert_eq!(teardown(&document).status, 0, "never attached");
    assert_eq!(call(&world, "", &format!("setup {netns}"), &document).status, 0);
    let twice = call(&world, "", &format!("setup {netns}"), &document);
    assert!(twice.status == 1 && twice.stdout.starts_with("{\"error\":\""), "{twice:?}");
    assert_eq!(teardown(&document).status, 0);
    assert_eq!(teardown(&document).status, 0, "twice");

    // The namespace goes first, and the network is not understood any more.
    assert_eq!(call(&world, "", &format!("setup {netns}"), &document).status, 0);
    world.sh("ip netns del c1");
    let mut odd = document.clone();
    odd["network"]["options"] = serde_json::json!({"from": "the future"});
    let gone = teardown(&odd);
    assert_eq!(gone.status, 0, "{gone:?}");
    let left = world.sh(&format!("{}/spoke ps -o json", Plugins::MOUNT));
    assert_eq!(left.trim(), "[]");
    let own = call(&world, "", "setup /proc/self/ns/net", &document);
    assert!(own.status == 1 && own.stdout.contains("not a container's"), "{own:?}");
}
