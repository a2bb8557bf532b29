//! The output of `iptables-save`.

use std::collections::{BTreeMap, BTreeSet};

/// The rules of one family as they are, and, while a change is planned, as they will be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Saved {
    tables: BTreeMap<String, Contents>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) chains: BTreeSet<String>,
    /// The chain, and the rest of the rule as it was printed.
    pub(super) rules: Vec<(String, String)>,
}

impl Saved {
    /// Lines that are not understood are left out: they are no rules of Spoke's.
    pub(super) fn parse(text: &str) -> Self {
        let mut saved = Self::default();
        let mut table = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = name.to_owned();
            } else if let Some(rest) = line.strip_prefix(':') {
                let name = rest.split(' ').next().unwrap_or_default();
                saved.table(&table).chains.insert(name.to_owned());
            } else if let Some((chain, rule)) =
                line.strip_prefix("-A ").and_then(|rest| rest.split_once(' '))
            {
                saved.table(&table).rules.push((chain.to_owned(), rule.to_owned()));
            }
        }
        saved
    }

    pub(super) fn table(&mut self, name: &str) -> &mut Contents {
        self.tables.entry(name.to_owned()).or_default()
    }

    /// The rules of a chain, as they were printed.
    pub(super) fn rules<'a>(
        &'a self,
        table: &str,
        chain: &'a str,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let rules = self.tables.get(table).map(|table| table.rules.as_slice()).unwrap_or_default();
        rules.iter().filter(move |(of, _)| of == chain).map(|(_, rule)| rule.as_str())
    }

    /// Whether the chain has the rule, whatever either's comment says: other releases of the
    /// reference plugins worded some of them otherwise.
    pub(super) fn has_rule(&self, table: &str, chain: &str, rule: &str) -> bool {
        let wanted = without_comment(rule);
        self.rules(table, chain).any(|rule| without_comment(rule) == wanted)
    }
}

/// The rule without its comment match.
pub(super) fn without_comment(rule: &str) -> String {
    const START: &str = "-m comment --comment ";
    let Some((before, rest)) = rule.split_once(START) else { return rule.to_owned() };
    let after = match rest.strip_prefix('"') {
        Some(quoted) => {
            let mut escaped = false;
            let end = quoted.find(|c| {
                let end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                end
            });
            end.and_then(|end| quoted.get(end + 1..)).unwrap_or_default()
        }
        None => rest.find(' ').and_then(|end| rest.get(end..)).unwrap_or_default(),
    };
    format!("{before}{}", after.trim_start())
}

/// Whether the rule sends packets to that chain.
pub(super) fn leads_to(rule: &str, chain: &str) -> bool {
    rule.strip_suffix(chain)
        .is_some_and(|rest| rest == "-j " || rest.ends_with(" -j ") || rest.ends_with(" -g "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_do_not_count() {
        let pairs = [
            (r#"-m comment --comment "a \"b\" c" -j X"#, "-j X"),
            (r#"-s 1.2.3.4/32 -m comment --comment plain -j X"#, "-s 1.2.3.4/32 -j X"),
            (r#"-j X -m comment --comment "open"#, "-j X "),
            ("-j X", "-j X"),
        ];
        for (rule, bare) in pairs {
            assert_eq!(without_comment(rule), bare);
        }
    }

    #[test]
    fn a_target_is_a_whole_name() {
        assert!(leads_to("-p tcp -j CNI-A", "CNI-A") && leads_to("-j CNI-A", "CNI-A"));
        assert!(!leads_to("-j X-CNI-A", "CNI-A") && !leads_to("-j CNI-A", "CNI"));
    }

    #[test]
    fn reads_what_is_printed() {
        let text = "# x\n*nat\n:POSTROUTING ACCEPT [0:0]\n:CNI-A - [0:0]\n-A POSTROUTING -j CNI-A\nCOMMIT\n";
        let mut saved = Saved::parse(text);
        assert!(saved.table("nat").chains.contains("CNI-A"));
        assert!(!saved.table("filter").chains.contains("CNI-A"));
        assert!(saved.has_rule("nat", "POSTROUTING", "-j CNI-A"));
        assert_eq!(Saved::parse("-A\n:\n*\n-A x\n\u{0}"), {
            let mut odd = Saved::default();
            odd.table("").chains.insert(String::new());
            odd
        });
    }
}
