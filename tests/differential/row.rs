//! One comparison: a configuration, what is done with it, and where we differ on purpose.

use serde_json::{Value, json};

/// A configuration and what is done with it in both worlds.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) list: Value,
    /// `CNI_ARGS`.
    pub(crate) args: &'static str,
    /// Capability arguments.
    pub(crate) runtime: Value,
    /// A shell script that prepares the world.
    pub(crate) before: &'static str,
    pub(crate) steps: Vec<Step>,
    /// The error code of ours where the reference only says 999.
    pub(crate) code: Option<i64>,
    pub(crate) differs: Vec<Differs>,
    pub(crate) messages: Vec<Messages>,
    /// Whether the world is not looked at.
    pub(crate) answers_only: bool,
}

/// A difference that is meant.
pub(crate) struct Differs {
    pub(crate) why: &'static str,
    /// Which lines: those that contain any of these.
    pub(crate) lines: &'static [&'static str],
}

/// A message of ours in the place of one of the reference's, where that is wrong, empty, or names types
/// of its language (`docs/cni.md` lists them).
pub(crate) struct Messages {
    /// The reference's, whole.
    pub(crate) theirs: &'static str,
    /// Ours, whole.
    pub(crate) ours: &'static str,
}

/// What is done; the world is looked at after each.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Add,
    Check,
    /// CHECK after a shell script in the world.
    CheckAfter(&'static str),
    Del,
    /// ADD of another container; which one.
    AddOther(&'static str),
    /// DEL with an empty `CNI_NETNS`.
    DelWithoutNetns,
    /// DEL after the namespace was deleted, its path still given.
    DelAfterNetns,
    /// DEL by a runtime that lost its record of the ADD.
    DelWithoutResult,
    /// DEL by a runtime whose operator renamed the network meanwhile.
    DelRenamed,
    /// A verb for the whole list: STATUS, GC, VERSION.
    Ask(&'static str),
    /// A shell script in the world.
    Sh(&'static str),
    /// The first plugin with this environment and standard input, and nothing else.
    Raw {
        plugin: &'static str,
        env: Vec<(&'static str, &'static str)>,
        stdin: &'static str,
    },
}

impl Step {
    /// Short, for a report.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Raw { plugin, .. } => format!("Raw {plugin}"),
            other => format!("{other:?}"),
        }
    }
}

impl Row {
    /// ADD, CHECK (where the version has it) and DEL of `plugins` on network `net`.
    pub(crate) fn new(name: &'static str, version: &str, plugins: &[Value]) -> Self {
        let checks = matches!(version, "0.4.0" | "1.0.0" | "1.1.0");
        let steps = if checks {
            vec![Step::Add, Step::Check, Step::Del]
        } else {
            vec![Step::Add, Step::Del]
        };
        Self {
            name,
            list: json!({"name": "net", "cniVersion": version, "plugins": plugins}),
            args: "",
            runtime: json!({}),
            before: "",
            steps,
            code: None,
            differs: Vec::new(),
            messages: Vec::new(),
            answers_only: false,
        }
    }

    pub(crate) fn args(self, args: &'static str) -> Self {
        Self { args, ..self }
    }

    pub(crate) fn runtime(self, runtime: Value) -> Self {
        Self { runtime, ..self }
    }

    pub(crate) fn before(self, before: &'static str) -> Self {
        Self { before, ..self }
    }

    pub(crate) fn steps(self, steps: &[Step]) -> Self {
        Self { steps: steps.to_vec(), ..self }
    }

    /// A refused ADD, and DEL after it. `code` is ours where the reference says 999.
    pub(crate) fn refused(self, code: i64) -> Self {
        self.steps(&[Step::Add, Step::Del]).code(code)
    }

    /// Our error code where the reference says 999.
    pub(crate) fn code(self, code: i64) -> Self {
        Self { code: Some(code), ..self }
    }

    /// A key of the list itself.
    pub(crate) fn key(mut self, key: &str, value: Value) -> Self {
        self.list[key] = value;
        self
    }

    /// A refused ADD of ours leaves nothing behind.
    pub(crate) fn tidy(self) -> Self {
        self.differs(
            "a refused ADD of ours leaves nothing; the reference leaves what it had made until then",
            &[
                "1 Add: - host ",
                "1 Add: - c1 ",
                "1 Add: - file ",
                "2 Del: - host ",
                "2 Del: - c1 ",
                "2 Del: - file ",
            ],
        )
    }

    /// A second step that is a DEL without netns: ours knows more than the reference asks.
    pub(crate) fn without_netns(self) -> Self {
        self.differs(
            "without a netns the reference leaves the interface and its masquerade; ours go by the record",
            &[
                "2 DelWithoutNetns: - c1 ",
                "2 DelWithoutNetns: - host link PEER(",
                "2 DelWithoutNetns: - host address PEER(",
                "2 DelWithoutNetns: - host route {\"dev\":\"PEER(",
                "tables nat ",
            ],
        )
    }

    /// DEL of ours is done, whatever the configuration says.
    pub(crate) fn forgiving(self) -> Self {
        self.differs(
            "DEL gives back what there is, whatever is wrong with the configuration: it should \
             generally complete without error (CNI 1.1.0 §2, DEL)",
            &["2 Del: - ", "2 Del: + answer 0 exit 0", "2 Del: + answer 1 exit 0", "says "],
        )
    }

    /// The message is ours: what the reference says, and what we say of the same.
    pub(crate) fn says(mut self, theirs: &'static str, ours: &'static str) -> Self {
        self.messages.push(Messages { theirs, ours });
        self
    }

    /// Compares what is said, and nothing else.
    pub(crate) fn answers_only(self) -> Self {
        Self { answers_only: true, ..self }
    }

    pub(crate) fn differs(mut self, why: &'static str, lines: &'static [&'static str]) -> Self {
        self.differs.push(Differs { why, lines });
        self
    }
}

/// `base` with the keys of `more` added or replaced.
pub(crate) fn with(mut base: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().expect("an object") {
        base[key] = value.clone();
    }
    base
}
