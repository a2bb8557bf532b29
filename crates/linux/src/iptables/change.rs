//! From what there is to what there should be, as input of `iptables-restore --noflush`.

use std::collections::BTreeMap;

use model::{AttachmentId, IfName, IpNet, Result};

use super::WiringPart;
use super::rules::{
    FILTER, FORWARD, NAT, Rule, RulePosition, RuleSet, STAGE_1, STAGE_2, Whose, forward_rules,
    is_routed_rule, is_unknown_rule, masquerade_chain, publish_chain, published_rule,
};
use super::saved::{Saved, leads_to, without_comment};

/// Commands, and what there will be once they were executed.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    saved: Saved,
    commands: BTreeMap<&'static str, Vec<String>>,
    contended: bool,
}

/// Adds what is missing.
pub(super) fn install(saved: Saved, wanted: &RuleSet) -> Result<Change> {
    let mut change = Change { saved, ..Change::default() };
    for (table, chain) in &wanted.chains {
        change.create(table, chain);
    }
    if let Some(chain) = &wanted.renewed {
        // Complete already: nothing is torn down for an instant.
        if missing(&change.saved, wanted).is_some() || change.has_more(chain, wanted) {
            change.unlink(NAT, chain, |_| true);
            change.empty(NAT, chain);
        }
        change.create(NAT, chain);
    }
    for rule in &wanted.rules {
        change.add(rule);
    }
    Ok(change)
}

/// Removes what bears the name of the attachment, or, where the kernel gives no name, is about
/// its addresses.
pub(super) fn remove(
    saved: Saved,
    id: &AttachmentId,
    parts: &[WiringPart],
    addresses: &[IpNet],
) -> Change {
    let mut change = Change { saved, ..Change::default() };
    for part in parts {
        match part {
            WiringPart::Masquerade => {
                change.stop_masquerading(&masquerade_chain(id), addresses);
                change.drop_rules(FILTER, |chain, rule| {
                    let is_its = |net: &IpNet| is_unknown_rule(rule, net);
                    chain == "FORWARD" && addresses.iter().any(is_its)
                });
            }
            WiringPart::Publish => {
                for chain in [publish_chain(id, "DN-"), publish_chain(id, "SN-")] {
                    change.unlink(NAT, &chain, |_| true);
                    change.delete(NAT, &chain);
                }
            }
            WiringPart::Firewall => {
                let rules: Vec<String> = addresses
                    .iter()
                    .flat_map(|net| forward_rules(net).into_iter().chain([published_rule(net)]))
                    .collect();
                change.drop_rules(FILTER, |chain, rule| {
                    let rule = without_comment(rule);
                    let routed = || addresses.iter().any(|net| is_routed_rule(&rule, net));
                    chain == FORWARD && (rules.contains(&rule) || routed())
                });
            }
        }
    }
    change
}

/// Removes the isolation of a bridge.
pub(super) fn remove_bridge(saved: Saved, bridge: &IfName) -> Change {
    let mut change = Change { saved, ..Change::default() };
    let (into, out) = (format!("-i {bridge} "), format!("-o {bridge} "));
    change.drop_rules(FILTER, |chain, rule| {
        (chain == STAGE_1 && rule.starts_with(&into))
            || (chain == STAGE_2 && rule.starts_with(&out))
    });
    change
}

/// Removes the rules that isolate a bridge as [`RuleSet::isolations`] has them, word by word.
pub(super) fn remove_isolation(saved: Saved, isolations: &[RuleSet]) -> Change {
    let mut change = Change { saved, ..Change::default() };
    let rules: Vec<&Rule> = isolations.iter().flat_map(|it| &it.rules).collect();
    change.drop_rules(FILTER, |chain, text| {
        [STAGE_1, STAGE_2].contains(&chain)
            && rules.iter().any(|rule| {
                rule.place == RulePosition::First && rule.chain == chain && rule.text == text
            })
    });
    change
}

/// The first rule that is not there, and that the container needs.
pub(super) fn missing<'a>(saved: &Saved, wanted: &'a RuleSet) -> Option<&'a Rule> {
    let mut needed = wanted.rules.iter().filter(|rule| rule.whose != Whose::Added);
    needed.find(|rule| !is_there(saved, rule))
}

fn is_there(saved: &Saved, rule: &Rule) -> bool {
    if rule.only.is_empty() {
        return saved.has_rule(rule.table, &rule.chain, &rule.text);
    }
    let mut rules = saved.rules(rule.table, &rule.chain);
    rules.any(|held| rule.only.iter().all(|word| held.contains(word.as_str())))
}

impl Change {
    /// The input for `iptables-restore`; empty where there is nothing to do.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for (table, commands) in &self.commands {
            text.push_str(&format!("*{table}\n{}\nCOMMIT\n", commands.join("\n")));
        }
        text
    }

    /// Whether another process may have added the same rules at the same time, so that there are
    /// two of them now: `iptables-nft-restore` repeats its work on top of the other's.
    pub(super) fn is_contended(&self) -> bool {
        self.contended
    }

    fn command(&mut self, table: &'static str, command: String) {
        self.commands.entry(table).or_default().push(command);
    }

    /// `-N` fails where the chain exists by now; declaring it would empty it.
    fn create(&mut self, table: &'static str, chain: &str) {
        if self.saved.table(table).chains.insert(chain.to_owned()) {
            self.command(table, format!("-N {chain}"));
        }
    }

    fn add(&mut self, rule: &Rule) {
        if is_there(&self.saved, rule) {
            if rule.whose != Whose::Own {
                self.keep_last(rule);
            }
            return;
        }
        self.contended |= rule.whose != Whose::Own;
        let Rule { table, chain, text, place, .. } = rule;
        let held = (chain.clone(), text.clone());
        match place {
            RulePosition::First => {
                self.saved.table(table).rules.insert(0, held);
                self.command(table, format!("-I {chain} 1 {text}"));
            }
            RulePosition::Last => {
                self.saved.table(table).rules.push(held);
                self.command(table, format!("-A {chain} {text}"));
            }
        }
    }

    /// Removes all but the last copy of a rule.
    fn keep_last(&mut self, rule: &Rule) {
        let wanted = without_comment(&rule.text);
        let same = |of: &str, held: &str| of == rule.chain && without_comment(held) == wanted;
        let held = &self.saved.table(rule.table).rules;
        let mut surplus = held.iter().filter(|(of, held)| same(of, held)).count() - 1;
        self.drop_rules(rule.table, |of, held| {
            let drop = surplus > 0 && same(of, held);
            surplus -= usize::from(drop);
            drop
        });
    }

    /// Whether the chain has, or is reached by, rules that are not wanted, or one twice.
    fn has_more(&mut self, chain: &str, wanted: &RuleSet) -> bool {
        let ours = |of: &str, rule: &str| of == chain || leads_to(rule, chain);
        let wanted = wanted.rules.iter().filter(|rule| ours(&rule.chain, &rule.text)).count();
        let held = &self.saved.table(NAT).rules;
        held.iter().filter(|(of, rule)| ours(of, rule)).count() != wanted
    }

    /// Removes those of the selected rules that jump to the chain.
    fn unlink(&mut self, table: &'static str, chain: &str, meant: impl Fn(&str) -> bool) {
        self.drop_rules(table, |_, rule| leads_to(rule, chain) && meant(rule));
    }

    fn drop_rules(&mut self, table: &'static str, mut unwanted: impl FnMut(&str, &str) -> bool) {
        let rules = std::mem::take(&mut self.saved.table(table).rules);
        let (gone, kept): (Vec<_>, Vec<_>) =
            rules.into_iter().partition(|(chain, rule)| unwanted(chain, rule));
        self.saved.table(table).rules = kept;
        for (chain, rule) in gone {
            self.command(table, format!("-D {chain} {rule}"));
        }
    }

    fn empty(&mut self, table: &'static str, chain: &str) {
        let rules = &mut self.saved.table(table).rules;
        let before = rules.len();
        rules.retain(|(of, _)| of != chain);
        if rules.len() != before {
            self.command(table, format!("-F {chain}"));
        }
    }

    fn delete(&mut self, table: &'static str, chain: &str) {
        self.empty(table, chain);
        if self.saved.table(table).chains.remove(chain) {
            self.command(table, format!("-X {chain}"));
        }
    }

    /// All interfaces of a container on one network share the chain: it goes with the last.
    fn stop_masquerading(&mut self, chain: &str, addresses: &[IpNet]) {
        let sources: Vec<String> = addresses
            .iter()
            .flat_map(|net| [IpNet::from(net.addr()), net.trunc()])
            .map(|net| format!("-s {net} "))
            .collect();
        let about = |rule: &str| {
            sources.is_empty() || sources.iter().any(|source| rule.starts_with(source.as_str()))
        };
        self.unlink(NAT, chain, about);
        if !self.saved.table(NAT).rules.iter().any(|(_, rule)| leads_to(rule, chain)) {
            self.delete(NAT, chain);
        }
    }
}
