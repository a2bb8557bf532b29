//! Quotas over a kernel that counts, and a clock that is set.

use std::collections::BTreeMap;
use std::sync::Mutex;

use engine::port::{Driver, Key, Metered, Prefix, Presence, Store};
use engine::{AtOnce, Engine, Mode, Noting, Request};
use model::*;

use super::common::{Directory, request};
use super::endpoint_world::{Rig, front};

const DAY: u64 = 86_400;

/// The dataplane of a rig whose kernel counts besides.
struct Metering<'a> {
    rig: &'a Rig,
    counted: Mutex<BTreeMap<AttachmentId, Metered>>,
}

impl<'a> Metering<'a> {
    fn new(rig: &'a Rig) -> Self {
        Self { rig, counted: Mutex::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&Engine<'_>) -> T) -> T {
        let directory = Directory::default();
        work(&Engine::new(self.rig, self, &directory, self.rig))
    }

    /// The container sends or receives so much, and no more than it may.
    fn carry(&self, id: &AttachmentId, bytes: u64) {
        let mut counted = self.counted.lock().unwrap();
        let it = counted.get_mut(id).unwrap();
        it.used = (it.used + bytes).min(it.bytes);
    }

    fn used(&self, id: &AttachmentId) -> Option<u64> {
        self.counted.lock().unwrap().get(id).map(|it| it.used)
    }

    fn flush(&self) {
        self.counted.lock().unwrap().clear();
    }

    fn set_clock(&self, now: u64) {
        *self.rig.now.lock().unwrap() = now;
    }
}

impl Driver for Metering<'_> {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        self.rig.attach(attachment)
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        if attachment.quota().is_some() {
            self.counted.lock().unwrap().remove(&attachment.id);
        }
        self.rig.detach(attachment)
    }

    fn check(&self, attachment: &Attachment, attached: &Attached) -> Result<()> {
        self.rig.check(attachment, attached)
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        self.rig.presence(attachment)
    }

    fn restore(&self, attachment: &Attachment) -> Result<bool> {
        self.rig.restore(attachment)
    }

    fn limit(&self, attachment: &Attachment) -> Result<()> {
        self.rig.limit(attachment)
    }

    fn metered(&self, attachment: &Attachment) -> Result<Option<Metered>> {
        Ok(self.counted.lock().unwrap().get(&attachment.id).copied())
    }

    fn meter(&self, attachment: &Attachment, metered: Metered) -> Result<()> {
        self.counted.lock().unwrap().insert(attachment.id.clone(), metered);
        Ok(())
    }

    fn unmeter(&self, attachment: &Attachment) -> Result<()> {
        self.counted.lock().unwrap().remove(&attachment.id);
        Ok(())
    }

    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        self.rig.hardware_address(attachment)
    }

    fn up(&self, network: &Network) -> Result<()> {
        self.rig.up(network)
    }

    fn remove(&self, network: &Network) -> Result<()> {
        self.rig.remove(network)
    }
}

doubles::no_strays!(Metering<'_>);

/// The container `web`, under this id of its runtime.
fn web(container: &str) -> Request {
    Request { owner: Some("web".parse().unwrap()), ..request(&front(), container) }
}

fn of(bytes: u64, period: Period) -> Bandwidth {
    Bandwidth { quota: Some(Quota { bytes, period }), ..Bandwidth::default() }
}

fn noted(engine: &Engine<'_>) -> usize {
    noted_as(engine, Noting::Due)
}

fn noted_as(engine: &Engine<'_>, noting: Noting) -> usize {
    let mut used_up = Vec::new();
    engine.links.note_usages(noting, &mut used_up).unwrap();
    used_up.len()
}

#[test]
fn a_successor_a_flush_and_a_killed_daemon_count_on() {
    let rig = Rig::new();
    let kernel = Metering::new(&rig);
    let first = kernel.with(|engine| {
        let id = engine.attachments.attach(&web("a")).unwrap().id;
        engine.attachments.set_limits(&id, &of(1_000, Period::Month)).unwrap();
        assert_eq!(kernel.used(&id), Some(0));
        kernel.carry(&id, 300);
        assert_eq!(noted(engine), 0);
        kernel.carry(&id, 100);
        id
    });
    // What was counted since the last look is lost with the table, and no more.
    kernel.flush();
    rig.reborn();
    let second = kernel.with(|engine| {
        assert!(engine.repair.restore(&mut AtOnce).unwrap(), "it was missing");
        assert_eq!(kernel.used(&first), Some(300));
        assert!(!engine.repair.restore(&mut AtOnce).unwrap(), "it is there");
        kernel.counted.lock().unwrap().get_mut(&first).unwrap().used = 0;
        assert!(engine.repair.restore(&mut AtOnce).unwrap(), "it is behind the book");
        assert_eq!(kernel.used(&first), Some(300));
        kernel.carry(&first, 50);
        engine.links.detach(&web("a")).unwrap();
        assert_eq!(kernel.used(&first), None);
        let kept = engine.attachments.amendments().unwrap();
        assert_eq!(engine.links.used_of_name(kept.first().unwrap()).unwrap(), Some(350));
        engine.attachments.attach(&web("b")).unwrap()
    });
    assert_eq!(kernel.used(&second.id), Some(350));
    kernel.with(|engine| {
        assert_eq!(engine.links.used_of(&second).unwrap(), Some(350));
        // A larger one counts on; none forgets.
        engine.attachments.set_limits(&second.id, &of(2_000, Period::Month)).unwrap();
        assert_eq!(kernel.used(&second.id), Some(350));
        engine.attachments.set_limits(&second.id, &Bandwidth::default()).unwrap();
        assert_eq!(kernel.used(&second.id), None);
        engine.attachments.set_limits(&second.id, &of(1_000, Period::Month)).unwrap();
        assert_eq!(kernel.used(&second.id), Some(0));
    });
}

#[test]
fn a_period_begins_anew() {
    let rig = Rig::new();
    let kernel = Metering::new(&rig);
    kernel.set_clock(20_000 * DAY + 5);
    kernel.with(|engine| {
        let id = engine.attachments.attach(&web("a")).unwrap().id;
        engine.attachments.set_limits(&id, &of(1_000, Period::Day)).unwrap();
        kernel.carry(&id, 5_000);
        assert_eq!((noted(engine), noted(engine)), (1, 0), "it is reported once");
        // A clock that is set back, or goes on within the day, changes nothing.
        for clock in [19_999 * DAY, 20_001 * DAY - 1] {
            kernel.set_clock(clock);
            assert_eq!(noted(engine), 0);
            assert_eq!(kernel.used(&id), Some(1_000));
        }
        kernel.set_clock(20_001 * DAY);
        assert_eq!(noted(engine), 0);
        assert_eq!(kernel.used(&id), Some(0));
        kernel.carry(&id, 400);
        assert_eq!(noted(engine), 0);
        kernel.carry(&id, 600);
        assert_eq!(noted(engine), 1);

        // It begins without anybody attached, too.
        engine.links.detach(&web("a")).unwrap();
        kernel.set_clock(20_002 * DAY);
        let id = engine.attachments.attach(&web("a")).unwrap().id;
        assert_eq!(kernel.used(&id), Some(0));
    });
}

#[test]
fn what_a_killed_command_left_of_a_quota_goes() {
    let rig = Rig::new();
    let kernel = Metering::new(&rig);
    kernel.with(|engine| {
        let id = engine.attachments.attach(&web("a")).unwrap().id;
        engine.attachments.set_limits(&id, &of(1_000, Period::Week)).unwrap();
        let quota = kernel.counted.lock().unwrap().clone();
        engine.attachments.set_limits(&id, &Bandwidth::default()).unwrap();
        kernel.counted.lock().unwrap().clone_from(&quota);
        assert!(engine.repair.restore(&mut AtOnce).unwrap());
        assert_eq!(kernel.used(&id), None);

        // Nor does it last until the next container of that identity, which has no limits at all.
        *kernel.counted.lock().unwrap() = quota;
        engine.links.detach(&web("a")).unwrap();
        assert_eq!(kernel.used(&id), Some(0), "the record has none");
        engine.attachments.attach(&web("a")).unwrap();
        assert_eq!(kernel.used(&id), None);
    });
}

#[test]
fn little_is_written_once_a_minute_and_at_the_end() {
    let rig = Rig::new();
    let kernel = Metering::new(&rig);
    kernel.set_clock(20_000 * DAY);
    kernel.with(|engine| {
        let id = engine.attachments.attach(&web("a")).unwrap().id;
        engine.attachments.set_limits(&id, &of(10_000, Period::Day)).unwrap();
        let known = || {
            engine
                .links
                .used_of_name(engine.attachments.amendments().unwrap().first().unwrap())
                .unwrap()
        };
        kernel.carry(&id, 99);
        noted(engine);
        assert_eq!(known(), Some(0), "less than a hundredth");
        kernel.carry(&id, 1);
        noted(engine);
        assert_eq!(known(), Some(100));
        kernel.carry(&id, 1);
        kernel.set_clock(20_000 * DAY + 59);
        noted(engine);
        assert_eq!(known(), Some(100), "less than a minute old");
        kernel.set_clock(20_000 * DAY + 60);
        noted(engine);
        assert_eq!(known(), Some(101));
        kernel.carry(&id, 1);
        noted_as(engine, Noting::All);
        assert_eq!(known(), Some(102));
        kernel.carry(&id, 1);
        engine.links.detach(&web("a")).unwrap();
        assert_eq!(known(), Some(103));
    });
}

#[test]
fn a_renamed_container_counts_on_and_its_old_name_too() {
    let rig = Rig::new();
    let kernel = Metering::new(&rig);
    let web2: OwnerName = "web2".parse().unwrap();
    kernel.with(|engine| {
        let id = engine.attachments.attach(&web("a")).unwrap().id;
        engine.attachments.set_limits(&id, &of(1_000, Period::Month)).unwrap();
        kernel.carry(&id, 1_000);
        assert_eq!(noted(engine), 1);
        engine.attachments.set_owner(&id, &web2).unwrap();
        assert_eq!(noted(engine), 0, "it is reported once");
        engine.repair.restore(&mut AtOnce).unwrap();
        assert_eq!(kernel.used(&id), Some(1_000));
        // A flush does not give it another one.
        kernel.flush();
        engine.repair.restore(&mut AtOnce).unwrap();
        assert_eq!(kernel.used(&id), Some(1_000));
        // The old name keeps the quota, and what was used of it.
        let next = engine.attachments.attach(&web("b")).unwrap().id;
        assert_eq!(kernel.used(&next), Some(1_000));
        // What is lifted is forgotten, under whichever name.
        assert_eq!(usages(&rig), ["web", "web2"]);
        engine.attachments.set_limits(&id, &Bandwidth::default()).unwrap();
        assert_eq!(usages(&rig), ["web"]);
        // What is of no name that keeps a quota goes with the network.
        engine.attachments.set_owner(&next, &web2).unwrap();
        assert_eq!(usages(&rig), ["web", "web2"]);
        engine.networks.remove(&front().name, true).unwrap();
        assert_eq!(usages(&rig), [""; 0]);
    });
}

/// What was used under the id of an endpoint goes over to its name with the quota.
#[test]
fn nothing_used_stays_under_the_id_of_an_endpoint() {
    let rig = Rig::new();
    let kernel = Metering::new(&rig);
    kernel.with(|engine| {
        let network = Network { runtime: Runtime::Docker, ..front() };
        let id = engine.attachments.attach(&request(&network, &"a1".repeat(32))).unwrap().id;
        engine.attachments.set_limits(&id, &of(1_000, Period::Month)).unwrap();
        kernel.carry(&id, 300);
        assert_eq!((noted(engine), usages(&rig)), (0, vec!["a1".repeat(32)]));
        engine.attachments.set_owner(&id, &"web".parse().unwrap()).unwrap();
        assert_eq!(usages(&rig), ["web"]);
        assert_eq!(kernel.used(&id), Some(300));
    });
}

/// The names whose usage is written.
fn usages(rig: &Rig) -> Vec<String> {
    let listed = rig.list(&Prefix::Usages).unwrap();
    let name = |(key, _)| match key {
        Key::Usage(_, _, name, _) => Some(name.to_string()),
        _ => None,
    };
    listed.into_iter().filter_map(name).collect()
}

#[test]
fn each_interface_on_a_network_has_its_own() {
    let rig = Rig::new();
    let kernel = Metering::new(&rig);
    kernel.with(|engine| {
        let other = Request { ifname: "eth7".parse().unwrap(), ..web("a") };
        let ids = [web("a"), other].map(|asked| engine.attachments.attach(&asked).unwrap().id);
        for id in &ids {
            engine.attachments.set_limits(id, &of(1_000, Period::Month)).unwrap();
        }
        kernel.carry(&ids[0], 1_000);
        kernel.carry(&ids[1], 200);
        assert_eq!((noted(engine), noted(engine)), (1, 0));
        assert!(!engine.repair.restore(&mut AtOnce).unwrap(), "each is counted as the book has it");
        assert_eq!(ids.each_ref().map(|id| kernel.used(id)), [Some(1_000), Some(200)]);
        let kept = engine.attachments.amendments().unwrap();
        assert_eq!(engine.links.used_of_name(kept.first().unwrap()).unwrap(), Some(1_000));
    });
}

#[test]
fn a_quota_that_is_not_enforced_is_refused() {
    let rig = Rig::new();
    let kernel = Metering::new(&rig);
    kernel.with(|engine| {
        let mut asked = web("a");
        let kind = LinkKind::Device(Device { choice: DeviceChoice::Name("eth9".parse().unwrap()) });
        asked.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
        let id = engine.attachments.attach(&asked).unwrap().id;
        let error = engine.attachments.set_limits(&id, &of(1_000, Period::Day)).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(engine.attachments.amendments().unwrap().is_empty());
    });
}

/// A name that keeps a quota and no rate leaves the rates to its runtime, also those of a plugin that its
/// configuration got later.
#[test]
fn a_quota_alone_lifts_no_limit_of_a_plugin() {
    let rig = Rig::new();
    let kernel = Metering::new(&rig);
    kernel.with(|engine| {
        let id = engine.attachments.attach(&web("a")).unwrap().id;
        engine.attachments.set_limits(&id, &of(1_000, Period::Day)).unwrap();
        engine.links.detach(&web("a")).unwrap();

        let rate = Some(Rate { rate: 8_000, burst: 64_000 });
        let id = engine.attachments.attach(&web("b")).unwrap().id;
        let mut plugin = Request { layer: Layer::Bandwidth, ipam: Ipam::None, ..web("b") };
        let limits = Bandwidth { ingress: rate, egress: rate, ..Bandwidth::default() };
        plugin.wiring = Wiring { bandwidth: Some(limits), ..Wiring::default() };
        engine.attachments.attach(&plugin).unwrap();
        let of_link = || {
            let all = engine.records.attachments().unwrap();
            let link = all.into_iter().find(|it| it.id == id && it.layer == Layer::Link).unwrap();
            link.wiring.bandwidth.unwrap()
        };
        assert_eq!(
            (of_link().ingress, of_link().egress),
            (rate, rate),
            "one record limits a device"
        );
        assert!(of_link().quota.is_some());
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert_eq!(of_link().ingress, rate, "what is kept is compared with what is kept");
        let kept = engine.attachments.amendments().unwrap();
        assert_eq!(kept[0].bandwidth.as_ref().unwrap().ingress, None);
        // A rate of the name's own holds instead.
        engine.links.detach(&plugin).unwrap();
        engine.links.detach(&web("b")).unwrap();
        engine.attachments.attach(&web("b")).unwrap();
        let own = Bandwidth { ingress: rate, ..of(1_000, Period::Day) };
        engine.attachments.set_limits(&id, &own).unwrap();
        engine.attachments.attach(&plugin).unwrap();
        assert_eq!((of_link().ingress, of_link().egress), (rate, None));
    });
}
