//! A record that cannot be read concerns the containers on its own bridge, and no others.

use tests::Serve;

use crate::bed::{Bed, SPOKE, until};

const OWN: &str = "--egress 203.0.113.20:5432";
const ITS: &[(&str, &str)] = &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "shut")];
const SHUT: &[(&str, &str)] =
    &[("tcp 203.0.113.20 5432", "shut"), ("tcp 203.0.113.99 443", "shut")];
/// The record of one of two neighbours with rules of their own.
const RECORD: &str = "$(ls -d /run/spoke/*/attachments/open/*lost*)";

/// The port of that container is not checked, by which it could use the rules of its neighbour.
#[test]
fn a_damaged_record_keeps_its_neighbours_shut_after_a_flush() {
    let mut bed = Bed::new(&["beside", "lost", "apart", "strict", "late"]);
    bed.spoke("network create --names --subnet 10.81.5.0/24 open");
    bed.spoke("network create --names --subnet 10.81.6.0/24 other");
    bed.spoke(
        "network create --egress 203.0.113.20:5432 --egress-strict --subnet 10.81.7.0/24 strict",
    );
    for (network, name) in [("open", "beside"), ("open", "lost"), ("other", "apart")] {
        bed.spoke(&format!("network connect {OWN} {network} {name}"));
    }
    bed.spoke("network connect strict strict");
    let all = |bed: &Bed, names: &[&str], table| names.iter().for_each(|it| bed.all(it, table));
    all(&bed, &["beside", "lost", "apart", "strict"], ITS);
    bed.world.sh(&format!("cp {RECORD} /kept; : >{RECORD}"));
    let reported = |count: u32| {
        let told =
            format!("{SPOKE} events | grep -c 'behind bridge sp-open stays shut: record .*lost'");
        format!("[ \\$({told}) = {count} ]")
    };
    // While it is running, and where it begins after the loss.
    for count in 1..=2 {
        bed.world.sh("nft flush ruleset");
        if count == 2 {
            bed.serve.take().expect("it runs").kill();
            bed.world.sh("nft flush ruleset");
            bed.serve = Some(Serve::start(&bed.world, &[]));
        }
        until(&bed.world, "nft list set inet spoke_fence own_allowed4 | grep -q 203.0.113.20");
        until(&bed.world, "nft list set inet spoke_fence strict | grep -q sp-strict");
        until(&bed.world, &reported(count));
        all(&bed, &["apart", "strict"], ITS);
        all(&bed, &["beside"], SHUT);
    }
    // Nor do commands and attaches open it, whatever they find of the daemon.
    for is_running in [true, false] {
        if !is_running {
            bed.serve.take().expect("it runs").kill();
        }
        bed.spoke("egress set --container beside 203.0.113.20:5432,203.0.113.21:5432");
        bed.spoke(&format!("network connect {OWN} open late"));
        all(&bed, &["beside", "late"], SHUT);
        bed.spoke("network disconnect open late");
        bed.spoke("egress set --container beside 203.0.113.20:5432");
        all(&bed, &["beside"], SHUT);
    }
    bed.serve = Some(Serve::start(&bed.world, &[]));
    until(&bed.world, &reported(3));
    all(&bed, &["beside"], SHUT);
    // When it can be read again. An operator may move it into place, or write into the file.
    bed.world.sh(&format!("at={RECORD}; cat /kept >$at"));
    for address in ["10.81.5.2", "10.81.5.3"] {
        until(
            &bed.world,
            &format!("nft list set inet spoke_fence own_allowed4 | grep -q '{address} '"),
        );
    }
    all(&bed, &["beside", "lost", "apart", "strict"], ITS);
}

/// What the kernel says of the bridge is what is left: no container there that can be read has rules.
#[test]
fn a_bridge_stays_shut_when_the_daemon_starts_again() {
    let mut bed = Bed::new(&["beside", "lost", "ruleless", "late", "apart"]);
    bed.spoke("network create --names --subnet 10.81.5.0/24 open");
    bed.spoke("network create --names --subnet 10.81.6.0/24 other");
    for (network, name) in [("open", "beside"), ("open", "lost"), ("other", "apart")] {
        bed.spoke(&format!("network connect {OWN} {network} {name}"));
    }
    // Its record names the bridge.
    bed.spoke("network connect open ruleless");
    bed.world.sh(&format!("cp {RECORD} /kept; : >{RECORD}; nft flush ruleset"));
    let is_shut = "nft list set inet spoke_fence shut | grep -q sp-open";
    until(&bed.world, is_shut);
    bed.spoke("network disconnect open beside");
    for life in 1..=2 {
        bed.serve.take().expect("it runs").kill();
        bed.serve = Some(Serve::start(&bed.world, &[]));
        // It has looked at all records when it reports that.
        let says =
            format!("{SPOKE} events | grep -c 'behind bridge sp-open stays shut: record .*lost'");
        until(&bed.world, &format!("[ \\$({says}) = {} ]", life + 1));
        let shut = bed.world.sh("nft list set inet spoke_fence shut");
        assert!(shut.contains("sp-open") && !shut.contains("sp-other"), "{shut}");
        bed.spoke(&format!("network connect {OWN} open late"));
        bed.all("late", SHUT);
        bed.all("apart", ITS);
        bed.spoke("network disconnect open late");
    }
    bed.spoke(&format!("network connect {OWN} --ip 10.81.5.9 open late"));
    bed.world.sh(&format!("at={RECORD}; cat /kept >$at"));
    until(&bed.world, &format!("! {is_shut}"));
    until(&bed.world, "nft list set inet spoke_fence own_allowed4 | grep -q '10.81.5.9 '");
    for name in ["lost", "late", "apart"] {
        bed.all(name, ITS);
    }
}

/// Of a network without rules, where no record that can be read says that there is a fence.
#[test]
fn a_damaged_record_keeps_its_container_shut_where_its_network_has_no_rules() {
    let mut bed = Bed::new(&["beside", "lost"]);
    bed.spoke("network rm agents");
    bed.spoke("network create --names --subnet 10.81.5.0/24 open");
    bed.spoke("network connect open beside");
    bed.spoke(&format!("network connect {OWN} open lost"));
    let open = [("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "open")].as_slice();
    let all = |bed: &Bed, lost| {
        bed.all("beside", open);
        bed.all("lost", lost);
    };
    all(&bed, ITS);
    bed.world.sh(&format!("cp {RECORD} /kept; : >{RECORD}"));
    let restart = |bed: &mut Bed, between: &str| {
        bed.serve.take().expect("it runs").kill();
        bed.world.sh(between);
        bed.serve = Some(Serve::start(&bed.world, &[]));
    };
    let is_shut = "nft list set bridge spoke shut 2>/dev/null | grep -q veth";
    let reported = |bed: &Bed, count: u32| {
        let told =
            format!("{SPOKE} events | grep -c 'of bridge sp-open stays shut: record .*lost'");
        until(&bed.world, &format!("[ \\$({told}) = {count} ]"));
    };
    // What is there holds.
    restart(&mut bed, "true");
    until(&bed.world, "nft list set inet spoke_fence own_allowed4 | grep -q 203.0.113.20");
    all(&bed, ITS);
    let losses = [
        ("nft flush ruleset", false),
        ("nft flush ruleset", true),
        ("nft delete table inet spoke_fence", false),
        ("nft delete table inet spoke_fence", true),
        ("nft delete table bridge spoke", false),
        ("nft delete table bridge spoke; nft delete table inet spoke_fence", true),
    ];
    for (count, (loss, is_restarted)) in (1..).zip(losses) {
        match is_restarted {
            true => restart(&mut bed, loss),
            false => drop(bed.world.sh(loss)),
        }
        until(&bed.world, is_shut);
        reported(&bed, count);
        all(&bed, SHUT);
        // It stays so in the next life of the daemon, until the record can be read.
        restart(&mut bed, "true");
        reported(&bed, count);
        all(&bed, SHUT);
        bed.world.sh(&format!("at={RECORD}; cat /kept >$at"));
        until(&bed.world, &format!("! {{ {is_shut}; }}"));
        all(&bed, ITS);
        bed.world.sh(&format!("at={RECORD}; : >$at"));
    }
    // Nor does anything of it stay when the container is gone.
    bed.world.sh("nft flush ruleset");
    until(&bed.world, is_shut);
    bed.world.sh("ip netns del lost");
    until(&bed.world, &format!("! {{ {is_shut}; }}"));
    bed.all("beside", open);
}

/// Of containers without rules, and of a virtual machine, nothing was lost where another one lost its rules.
#[test]
fn a_container_without_rules_is_not_shut_for_the_loss_of_another() {
    let mut bed = Bed::new(&["own", "first", "second", "ruleless", "bare"]);
    bed.spoke("network create --names --subnet 10.81.5.0/24 open");
    bed.spoke("network create --names --subnet 10.81.6.0/24 other");
    bed.spoke(&format!("network connect {OWN} open own"));
    bed.spoke(&format!("network connect {OWN} --ip 10.81.6.2 other first"));
    bed.spoke(&format!("network connect {OWN} --ip 10.81.6.3 other second"));
    bed.spoke("network connect open ruleless");
    bed.spoke("network connect --tap open machine");
    bed.spoke("network connect plain bare");
    let open = [("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "open")].as_slice();
    let records = "$(find /run/spoke/*/attachments -type f)";
    bed.world.sh(&format!("for at in {records}; do : >$at; done"));
    let lose = |address: &str| {
        format!(
            "port=$(nft list set bridge spoke sources4 | grep -o '\"veth[^\"]*\" . {address} ' | cut -d'\"' -f2)
            nft delete element bridge spoke bound \"{{ \\\"$port\\\" }}\""
        )
    };
    let reported = |bed: &Bed, count: u32| {
        let told = format!("{SPOKE} events | grep -c 'of bridge sp-other stays shut: record '");
        until(&bed.world, &format!("[ \\$({told}) = {count} ]"));
    };
    // While it is running, and where it begins after the loss.
    for (count, address) in (1..).zip(["10.81.6.2", "10.81.6.3"]) {
        match count {
            1 => drop(bed.world.sh(&lose(address))),
            _ => {
                bed.serve.take().expect("it runs").kill();
                bed.world.sh(&lose(address));
                bed.serve = Some(Serve::start(&bed.world, &[]));
            }
        }
        reported(&bed, count);
        let shut = bed.world.sh("nft list set bridge spoke shut");
        assert_eq!(shut.matches("veth").count(), count as usize, "{shut}");
        bed.all("first", SHUT);
        bed.all("second", if count == 1 { ITS } else { SHUT });
        bed.all("own", ITS);
        bed.all("ruleless", open);
        bed.all("bare", open);
    }
    // Of a network without names it is known without the packet filter that none has rules.
    bed.world.sh("nft flush ruleset");
    let told = format!("{SPOKE} events | grep -c 'of bridge sp-open stays shut: record '");
    until(&bed.world, &format!("[ \\$({told}) = 3 ]"));
    bed.all("own", SHUT);
    bed.all("ruleless", SHUT);
    bed.all("bare", open);
}
