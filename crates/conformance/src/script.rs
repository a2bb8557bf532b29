//! The language of the cases: a line is a statement, so that the author of a plugin can read what
//! failed, and the binary carries text rather than code.
//!
//! ```text
//! case NAME            begins a case; `macro NAME` begins lines that cases share
//! needs FACT ...       it is skipped where the plugin or the host is not like that
//! begins CASE ...      it does what these do: where one of them failed for the same reason, it is skipped
//! says TEXT            the sentence of the protocol's description that it checks
//! call METHOD BODY     asks the plugin; $x is a variable, $x.ip an address without its mask
//! ok | refused | status 4xx    judge the answer; `-- TEXT` says what is wrong otherwise
//! let NAME VALUE ...   the first of the values that is not empty; @Key/Key is read in the answer
//! is KIND VALUE        its form: text, address, cidr, cidr4, cidr6, mac, bool, list, map, empty
//! same|differs A B     compare; `within IP NET`, `inner IP NET`: neither network nor broadcast
//! undo METHOD BODY     is called when the case has ended, last first
//! do MACRO             carries out these lines
//! crowd N MACRO VAR    the same N times at once; what VAR became must all differ
//! until-refused N MACRO VAR    the same until it is refused, at most N times
//! when VALUE ...       carries out the rest if the value is not empty, `unless` if it is
//! warn ...             what the rest finds is a warning
//! ```
//!
//! Every other word is one of the kit's own (`words.rs`, `docker.rs`, `cni.rs`).

/// A case, and the sentence that it checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case<'a> {
    pub(super) name: &'a str,
    pub(super) needs: Vec<&'a str>,
    pub(super) begins: Vec<&'a str>,
    pub(super) says: &'a str,
    pub(super) lines: Vec<&'a str>,
}

/// Cases in their order, and what they share.
#[derive(Debug, Default)]
pub(super) struct Script<'a> {
    pub(super) cases: Vec<Case<'a>>,
    macros: Vec<Case<'a>>,
}

impl<'a> Script<'a> {
    /// The lines of built-in texts; those before the first case are skipped.
    pub(super) fn read(texts: &[&'a str]) -> Self {
        let mut script = Self::default();
        let mut is_macro = false;
        let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            if word == "case" || word == "macro" {
                is_macro = word == "macro";
                script.of(is_macro).push(Case { name: rest, ..Case::default() });
                continue;
            }
            let Some(case) = script.of(is_macro).last_mut() else { continue };
            match word {
                "needs" => case.needs = rest.split(' ').collect(),
                "begins" => case.begins = rest.split(' ').collect(),
                "says" => case.says = rest,
                _ => case.lines.push(line),
            }
        }
        script
    }

    fn of(&mut self, is_macro: bool) -> &mut Vec<Case<'a>> {
        if is_macro { &mut self.macros } else { &mut self.cases }
    }

    /// The lines of a macro.
    pub(super) fn lines(&self, name: &str) -> Option<&[&'a str]> {
        let found = self.macros.iter().find(|known| known.name == name);
        found.map(|known| known.lines.as_slice())
    }

    /// The cases' names, with what each checks.
    pub(super) fn names(&self) -> Vec<(&'a str, &'a str)> {
        self.cases.iter().map(|case| (case.name, case.says)).collect()
    }
}
