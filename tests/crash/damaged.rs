//! A damaged record of a running container, or of a network: all others go on, it is reported, nothing of
//! the container is taken away, and no removal of it claims to have worked.

use tests::World;

use crate::bed::world;

const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "hurt", "plugins": [{"type": "spoke",
    "bridge": "hurt0", "capabilities": {"portMappings": true},
    "ipam": {"ranges": [[{"subnet": "10.94.0.0/29"}]]}}]}"#;

/// Files of the store, of a container that is attached and of a network that a command declared.
const RECORDS: [&str; 6] = [
    "run/spoke/*/attachments/hurt/*",
    "run/spoke/*/leases/@host/10.94.0.2",
    "run/spoke/*/configured/hurt",
    "run/spoke/*/cursors/hurt:0",
    "run/spoke/*/ports/tcp:8094",
    "var/lib/spoke/networks/declared",
];

const FAULTS: [&str; 3] =
    ["head -c 20 $at >/tmp/half; cat /tmp/half >$at", ": >$at", "rm $at; mkdir $at"];

#[test]
fn one_damaged_record_stops_no_other() {
    let world = world();
    let put =
        format!("mkdir -p /etc/cni/net.d; cat >/etc/cni/net.d/hurt.conflist <<'E'\n{NETWORK}\nE");
    world.sh(&put);
    world.sh("ip netns add box; ip netns add other; /opt/cni/bin/spoke network create declared --subnet 10.95.0.0/24");
    let ports =
        r#"CAP_ARGS='{"portMappings":[{"hostPort":8094,"containerPort":80,"protocol":"tcp"}]}'"#;
    world.sh(&format!("{ports} /opt/cni/bin/spoke cni add hurt /run/netns/box --container box"));
    world.sh("mkdir /keep; cp -a /run/spoke /keep/run; cp -a /var/lib/spoke /keep/state");
    // Every fault of every kind is the store's own test.
    for (record, fault) in RECORDS.into_iter().zip(FAULTS.into_iter().cycle()) {
        goes_on(&world, record, fault);
    }
    removed(&world);
}

/// Its own removal fails as long as its record is there, and goes on when that was looked at.
fn removed(world: &World) {
    const DEL: &str = "/opt/cni/bin/spoke cni del hurt /run/netns/box --container box";
    world.sh(": >$(ls -d /run/spoke/*/attachments/hurt/*)");
    let refused = world.try_sh(DEL);
    assert!(refused.status != 0, "{refused:?}");
    world.sh(&format!("rm /run/spoke/*/attachments/hurt/*; {DEL}; /opt/cni/bin/spoke gc"));
    world.sh("/opt/cni/bin/spoke network rm hurt; /opt/cni/bin/spoke network rm declared");
    assert_eq!(world.sh("ip -o link show type bridge").trim(), "");
    let left = world.sh(
        "find /run/spoke -type f -path '*/attachments/*' -o -type f -path '*/leases/*' -o -type f -path '*/ports/*'",
    );
    assert_eq!(left, "", "what it held");
}

fn goes_on(world: &World, record: &str, fault: &str) {
    let what = format!("{record}: {fault}");
    let ran = |command: &str| {
        let output = world.try_sh(command);
        assert!(output.status == 0, "{what}: {command}: {output:?}");
        output.stdout
    };
    ran(&format!("cd /; at=$(ls -d {record}); {fault}"));
    let links = world.sh("ip -o link show master hurt0");
    ran("/opt/cni/bin/spoke ps");
    ran("/opt/cni/bin/spoke gc");
    ran("/opt/cni/bin/spoke network ls");
    ran(
        "/opt/cni/bin/spoke network create more --subnet 10.96.0.0/24; /opt/cni/bin/spoke network rm more",
    );
    let hint = record.contains("configured") || record.contains("cursors");
    let doctor = world.try_sh("/opt/cni/bin/spoke doctor").stdout;
    assert!(doctor.contains("damaged"), "{what}: {doctor}");
    let result = ran("/opt/cni/bin/spoke cni add hurt /run/netns/other --container other");
    assert!(!result.contains("10.94.0.2/"), "{what}: the address was given twice: {result}");
    ran("/opt/cni/bin/spoke cni del hurt /run/netns/other --container other");
    assert_eq!(
        world.sh("ip -o link show master hurt0"),
        links,
        "{what}: the container lost its link"
    );

    if record.contains("attachments") {
        let refused = world.try_sh("/opt/cni/bin/spoke network rm hurt");
        assert!(refused.status != 0, "{what}: {refused:?}");
        let now = world.sh("ip -o link show master hurt0");
        assert_eq!(now, links, "{what}: half removed");
    }
    if record.contains("networks/") {
        let refused = world.try_sh("/opt/cni/bin/spoke network rm declared");
        assert!(refused.status != 0 && refused.stderr.contains("damaged"), "{what}: {refused:?}");
    }
    if !hint {
        // As it was, so that the next fault finds a whole store.
        let name = record.rsplit('/').next().unwrap_or_default();
        world.sh(&format!(
            "cd /; at=$(ls -d {record}); rm -r $at; cp -a $(find /keep -path \"*{}/{name}\" | head -1) $at",
            record.rsplit('/').nth(1).unwrap_or_default()
        ));
    } else {
        world.sh("rm -rf /run/spoke/*/damaged");
    }
}
