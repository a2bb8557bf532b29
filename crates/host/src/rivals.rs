//! Rivals: programs that remove restored parts again and again. Such parts are restored less and
//! less often, because neither side can win, and each attempt costs the host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use engine::{Backoff, Healed};
use linux::OwnTable;
use model::{AttachmentId, Layer};

/// How often a part is restored at once.
const AT_ONCE: u32 = 5;

/// The first pause; each one is twice as long as the one before.
const FIRST: Duration = Duration::from_secs(1);

/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(300);

/// No pause for what attachments share is longer: without it no container has a way out, and each
/// reload of firewalld removes it, as an administrator or a script makes them one after the other.
const LONGEST_SHARED: Duration = Duration::from_secs(5);

/// A part that stays this long is no longer contested, unless the pauses are longer.
const HELD: Duration = Duration::from_secs(60);

/// The pause before what another thread was working on is checked again; twice as long where it still is then.
const BUSY: Duration = Duration::from_secs(1);

/// No such pause is longer: all attachments are checked then, and a thread may wait long for a third-party plugin.
const LONGEST_BUSY: Duration = Duration::from_secs(16);

/// So many are named in a sentence.
const NAMED: usize = 3;

/// One unit of repair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RepairUnit {
    Table(OwnTable),
    Shared,
    Own(AttachmentId, Layer),
}

impl From<Healed<'_>> for RepairUnit {
    fn from(healed: Healed<'_>) -> Self {
        match healed {
            Healed::Own(id, layer) => RepairUnit::Own(id.clone(), layer),
            Healed::Shared => RepairUnit::Shared,
        }
    }
}

impl fmt::Display for RepairUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepairUnit::Table(table) => write!(f, "rules of {table}"),
            RepairUnit::Shared => write!(f, "the rules that let containers' packets be forwarded"),
            RepairUnit::Own(id, _) => write!(f, "the packet filter of {id}"),
        }
    }
}

impl RepairUnit {
    fn longest(&self) -> Duration {
        match self {
            RepairUnit::Shared => LONGEST_SHARED,
            RepairUnit::Table(_) | RepairUnit::Own(..) => LONGEST,
        }
    }
}

/// How often it was restored, when last, and its longest pause.
#[derive(Clone, Copy, Debug)]
struct History {
    repairs: u32,
    last: Instant,
    longest: Duration,
}

impl History {
    fn pause(self) -> Duration {
        match self.repairs.checked_sub(AT_ONCE) {
            None => Duration::ZERO,
            Some(doublings) => {
                let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
                FIRST.saturating_mul(factor).min(self.longest)
            }
        }
    }

    fn due(self) -> Instant {
        self.last + self.pause()
    }

    fn has_held(self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= HELD.max(2 * self.pause())
    }
}

/// The parts that were restored lately.
#[derive(Debug, Default)]
pub struct Rivals {
    known: BTreeMap<RepairUnit, History>,
    /// The reported parts.
    contested: BTreeSet<RepairUnit>,
    /// Whether the last pass left out what other threads were working on.
    has_busy: bool,
    /// The pause before that is checked again, and when it ends.
    busy: Option<(Duration, Instant)>,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Parts that are removed again and again.
    Contested(String),
    /// Nothing is any more.
    Over,
}

impl Rivals {
    /// One pass at `now`, which checks and restores.
    pub fn pass(&mut self, now: Instant) -> Pass<'_> {
        if !std::mem::take(&mut self.has_busy) {
            self.busy = None;
        }
        Pass { rivals: self, now }
    }

    /// Whether any part is restored after a pause.
    pub fn is_contested(&self) -> bool {
        !self.contested.is_empty()
    }

    /// When something will be due that is not, at `now`.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let busy = self.busy.filter(|_| self.has_busy).map(|(_, due)| due);
        let due = self.known.values().map(|history| history.due()).filter(|due| *due > now);
        due.chain(busy).min()
    }

    /// The report since the last call. A part that was not checked for long is gone.
    pub fn news(&mut self, now: Instant) -> Option<News> {
        let is_gone = |history: &History| {
            now.saturating_duration_since(history.last) >= HELD.max(2 * LONGEST) + LONGEST
        };
        self.known.retain(|_, history| !is_gone(history));
        let contested = |(thing, history): (&RepairUnit, &History)| {
            (!history.pause().is_zero()).then(|| thing.clone())
        };
        let found: BTreeSet<RepairUnit> = self.known.iter().filter_map(contested).collect();
        let new: Vec<&RepairUnit> = found.difference(&self.contested).collect();
        let reported = match new.is_empty() {
            false => Some(News::Contested(sentence(&new))),
            true if found.is_empty() && !self.contested.is_empty() => Some(News::Over),
            true => None,
        };
        // The remaining ones stay reported, also while another one is over.
        self.contested = found;
        reported
    }
}

fn sentence(things: &[&RepairUnit]) -> String {
    let named: Vec<_> = things.iter().take(NAMED).map(ToString::to_string).collect();
    let more = things.len().saturating_sub(NAMED);
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "something keeps removing {}{others}: it is put back after pauses of up to {} s from now on",
        named.join(", "),
        things.iter().map(|thing| thing.longest()).max().unwrap_or(LONGEST).as_secs(),
    )
}

/// One pass over everything.
#[derive(Debug)]
pub struct Pass<'a> {
    rivals: &'a mut Rivals,
    now: Instant,
}

impl Pass<'_> {
    /// As [`Backoff::is_due`].
    pub(crate) fn is_table_due(&self, table: OwnTable) -> bool {
        self.is_it_due(&RepairUnit::Table(table))
    }

    /// As [`Backoff::looked`].
    pub(crate) fn looked_at_table(&mut self, table: OwnTable, was_changed: bool) {
        self.looked_at(RepairUnit::Table(table), was_changed);
    }

    fn is_it_due(&self, thing: &RepairUnit) -> bool {
        self.rivals.known.get(thing).is_none_or(|history| history.due() <= self.now)
    }

    fn looked_at(&mut self, thing: RepairUnit, was_missing: bool) {
        let known = &mut self.rivals.known;
        if was_missing {
            let longest = thing.longest();
            let fresh = History { repairs: 0, last: self.now, longest };
            let history = known.entry(thing).or_insert(fresh);
            history.repairs = history.repairs.saturating_add(1);
            history.last = self.now;
        } else if known.get(&thing).is_some_and(|history| history.has_held(self.now)) {
            known.remove(&thing);
        }
    }
}

impl Backoff for Pass<'_> {
    fn is_due(&mut self, what: Healed<'_>) -> bool {
        self.is_it_due(&what.into())
    }

    fn looked(&mut self, what: Healed<'_>, was_missing: bool) {
        self.looked_at(what.into(), was_missing);
    }

    fn is_busy(&mut self, _: Healed<'_>) {
        self.rivals.has_busy = true;
        let pause = match self.rivals.busy {
            // An earlier pass than the one that it is due for.
            Some((_, due)) if self.now < due => return,
            Some((pause, _)) => (2 * pause).min(LONGEST_BUSY),
            None => BUSY,
        };
        self.rivals.busy = Some((pause, self.now + pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: OwnTable = OwnTable::Packets;

    fn id(container: &str) -> AttachmentId {
        doubles::attachment_id("front", container)
    }

    #[test]
    fn what_another_thread_works_on_is_checked_soon() {
        let (mut rivals, now) = (Rivals::default(), Instant::now());
        rivals.pass(now).is_busy(Healed::Own(&id("a"), Layer::Link));
        assert_eq!(rivals.next(now), Some(now + BUSY));
        rivals.pass(now).looked(Healed::Own(&id("a"), Layer::Link), false);
        assert_eq!(rivals.next(now), None);
    }

    #[test]
    fn what_another_thread_works_on_for_long_is_checked_less_and_less_often() {
        let (mut rivals, mut now) = (Rivals::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let mut pass = rivals.pass(now);
            pass.is_busy(Healed::Own(&id("a"), Layer::Link));
            pass.is_busy(Healed::Own(&id("b"), Layer::Link));
            // What is lost meanwhile makes another pass.
            rivals.pass(now).is_busy(Healed::Own(&id("a"), Layer::Link));
            let due = rivals.next(now).unwrap();
            pauses.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
        rivals.pass(now).looked(Healed::Own(&id("a"), Layer::Link), false);
        assert_eq!(rivals.next(now), None);
        rivals.pass(now).is_busy(Healed::Own(&id("a"), Layer::Link));
        assert_eq!(rivals.next(now), Some(now + BUSY));
    }

    /// A look at `now`, where a rival has removed the table before each.
    fn repaired(rivals: &mut Rivals, now: Instant) -> bool {
        let mut pass = rivals.pass(now);
        let is_due = pass.is_table_due(TABLE);
        if is_due {
            pass.looked_at_table(TABLE, true);
        }
        is_due
    }

    #[test]
    fn a_rival_is_answered_less_and_less_often() {
        let (mut rivals, started) = (Rivals::default(), Instant::now());
        let mut reported = Vec::new();
        let mut repairs = Vec::new();
        for tenths in 0..36_000 {
            let now = started + Duration::from_millis(100 * tenths);
            if repaired(&mut rivals, now) {
                repairs.push(tenths / 10);
            }
            reported.extend(rivals.news(now));
        }
        // In an hour, and not 36,000.
        assert_eq!(&repairs[..9], [0, 0, 0, 0, 0, 1, 3, 7, 15].map(|s| if s == 0 { 0 } else { s }));
        let last: Vec<_> = repairs.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(repairs.len() <= 26, "{repairs:?}");
        assert_eq!(last.last(), Some(&300));
        let [News::Contested(sentence)] = reported.as_slice() else { panic!("{reported:?}") };
        assert!(sentence.starts_with("something keeps removing rules of table inet spoke:"));
    }

    /// Reloads of firewalld, one after the other.
    #[test]
    fn what_all_share_never_waits_long() {
        let mut rivals = Rivals::default();
        let mut now = Instant::now();
        for _ in 0..20 {
            let mut pass = rivals.pass(now);
            assert!(pass.is_due(Healed::Shared));
            pass.looked(Healed::Shared, true);
            now += LONGEST_SHARED;
        }
        let Some(News::Contested(sentence)) = rivals.news(now) else { panic!("is reported") };
        assert!(sentence.contains("pauses of up to 5 s"), "{sentence}");
    }

    #[test]
    fn what_held_for_a_while_is_put_back_at_once_again() {
        let (mut rivals, started) = (Rivals::default(), Instant::now());
        let at = |seconds| started + Duration::from_secs(seconds);
        (0..5).for_each(|_| assert!(repaired(&mut rivals, started)));
        assert!(!repaired(&mut rivals, started));
        assert_eq!(rivals.next(started), Some(at(1)));
        assert!(matches!(rivals.news(started), Some(News::Contested(_))));
        for seconds in [2, 30, 59] {
            rivals.pass(at(seconds)).looked_at_table(TABLE, false);
            assert_eq!(rivals.news(at(seconds)), None);
        }
        rivals.pass(at(60)).looked_at_table(TABLE, false);
        assert_eq!(rivals.news(at(60)), Some(News::Over));
        assert!(!rivals.is_contested() && rivals.next(at(60)).is_none());
        (0..5).for_each(|_| assert!(repaired(&mut rivals, at(60))));
    }

    #[test]
    fn one_object_does_not_delay_another() {
        let (mut rivals, now) = (Rivals::default(), Instant::now());
        let (one, other) = (id("one"), id("two"));
        let (one, other) = (Healed::Own(&one, Layer::Link), Healed::Own(&other, Layer::Link));
        for _ in 0..9 {
            rivals.pass(now).looked(one, true);
        }
        let mut pass = rivals.pass(now);
        assert!(!pass.is_due(one) && pass.is_due(other) && pass.is_due(Healed::Shared));
        assert!(pass.is_table_due(TABLE));
    }

    #[test]
    fn many_are_reported_in_one_sentence_and_the_gone_are_forgotten() {
        let (mut rivals, now) = (Rivals::default(), Instant::now());
        for number in 0..250 {
            for _ in 0..20 {
                rivals.pass(now).looked(Healed::Own(&id(&format!("c{number}")), Layer::Link), true);
            }
        }
        let Some(News::Contested(sentence)) = rivals.news(now) else { panic!() };
        assert!(sentence.contains(" and 247 more: ") && sentence.len() < 400, "{sentence}");
        assert_eq!(rivals.news(now), None);
        assert_eq!(rivals.news(now + 3 * LONGEST), Some(News::Over));
        assert!(rivals.known.is_empty());
    }
}
