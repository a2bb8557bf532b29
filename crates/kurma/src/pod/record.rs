//! The record of a pod. It is on disk before the first change for the pod, and until all changes
//! are undone; nothing else is needed to undo them.

use std::path::PathBuf;

use model::{Error, IfName, Result};
use serde_json::{Value, json};

use crate::config::{Choice, NetworkConfig};
use crate::reply::Reply;
use crate::{Name, PodId};

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Which.
    pub pod: PodId,
    /// The file that keeps its network namespace.
    pub netns: PathBuf,
    /// Whether that is the host's own.
    pub is_host: bool,
    /// Its stage.
    pub stage: Stage,
    /// The networks that it was to have, in order.
    pub wanted: Vec<Name>,
    /// The attachments that began, in order.
    pub attachments: Vec<Attachment>,
    /// Networks that it goes without, where nothing began, and why.
    pub skipped: Vec<(Name, String)>,
}

/// The stage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its networks are being added. Without a process that does so, it is to be undone.
    Coming,
    /// Complete.
    Ready,
    /// It is being undone: the `del` of every remaining attachment is pending.
    Going,
}

/// A network of a pod: `add` may have been called, so `del` has to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Attachment {
    /// As it was configured then.
    pub network: NetworkConfig,
    /// Its interface in the pod.
    pub interface: Option<IfName>,
    /// Its state.
    pub state: State,
}

/// The state of an attachment.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// `add` began.
    Adding,
    /// `add` has answered this.
    Added(Reply),
    /// The last call failed.
    Failed {
        /// How.
        why: String,
        /// The answer of `add`, where that was not the call.
        had: Option<Reply>,
    },
}

impl Record {
    /// A pod that nothing was done for yet.
    pub(super) fn new(pod: PodId, netns: PathBuf, choice: &Choice<'_>) -> Self {
        let (is_host, wanted) = match choice {
            Choice::Host => (true, Vec::new()),
            Choice::Networks(networks) => {
                (false, networks.iter().map(|network| network.name.clone()).collect())
            }
        };
        let (attachments, skipped) = (Vec::new(), Vec::new());
        Self { pod, netns, is_host, stage: Stage::Coming, wanted, attachments, skipped }
    }

    /// The networks whose `del` has failed and is due, as the record holds them.
    pub fn pending(&self) -> Vec<&Name> {
        let pending = self.attachments.iter().filter(|_| self.stage == Stage::Going);
        pending.map(|attachment| &attachment.network.name).collect()
    }

    /// The networks that a complete pod goes without, and why.
    pub fn without(&self) -> Vec<(&str, &str)> {
        let failed = self.attachments.iter().filter_map(|attachment| match &attachment.state {
            State::Failed { why, .. } => Some((attachment.network.name.as_str(), why.as_str())),
            _ => None,
        });
        let skipped = self.skipped.iter().map(|(name, why)| (name.as_str(), why.as_str()));
        skipped.chain(failed).collect()
    }

    /// How many networks it has been connected to.
    pub(super) fn num(&self) -> usize {
        let added = |attachment: &&Attachment| matches!(attachment.state, State::Added(_));
        self.attachments.iter().filter(added).count()
    }

    /// Whether it has an interface of that name already.
    pub(super) fn has(&self, interface: &IfName) -> bool {
        self.attachments.iter().any(|attachment| {
            let is_there = !matches!(attachment.state, State::Failed { .. });
            is_there && attachment.interface.as_ref() == Some(interface)
        })
    }

    pub(super) fn to_value(&self) -> Value {
        let attachments = self.attachments.iter().map(Attachment::to_value);
        let skipped = self.skipped.iter().map(|(name, why)| json!([name.as_str(), why]));
        json!({
            "uuid": self.pod.as_str(),
            "netns": self.netns.to_string_lossy(),
            "host": self.is_host,
            "stage": self.stage.word(),
            "wanted": self.wanted.iter().map(Name::as_str).collect::<Vec<_>>(),
            "attachments": attachments.collect::<Value>(),
            "skipped": skipped.collect::<Value>(),
        })
    }

    pub(super) fn from_value(value: &Value) -> Result<Self> {
        let pod: PodId = text(value, "uuid")?.parse()?;
        let about = |error: Error| error.context(format!("record of pod {pod}"));
        let read = || -> Result<Self> {
            let stage = text(value, "stage")?;
            let skipped = list(value, "skipped").iter().map(|pair| match pair {
                Value::Array(pair) => match pair.as_slice() {
                    [Value::String(name), Value::String(why)] => Ok((name.parse()?, why.clone())),
                    _ => Err(damaged("skipped")),
                },
                _ => Err(damaged("skipped")),
            });
            let wanted = list(value, "wanted").iter();
            Ok(Self {
                pod: pod.clone(),
                netns: text(value, "netns")?.into(),
                is_host: value.get("host").and_then(Value::as_bool).unwrap_or_default(),
                stage: Stage::read(stage).ok_or_else(|| damaged("stage"))?,
                wanted: wanted
                    .map(|name| name.as_str().unwrap_or_default().parse())
                    .collect::<Result<_>>()?,
                attachments: list(value, "attachments")
                    .iter()
                    .map(Attachment::from_value)
                    .collect::<Result<_>>()?,
                skipped: skipped.collect::<Result<_>>()?,
            })
        };
        read().map_err(about)
    }
}

impl Stage {
    const WORDS: [(&'static str, Self); 3] =
        [("coming", Self::Coming), ("ready", Self::Ready), ("going", Self::Going)];

    /// One word for it.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, stage)| *stage == self).map_or("", |(word, _)| word)
    }

    fn read(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, stage)| *stage)
    }
}

impl Attachment {
    /// Its plugin's answer for the pod, if there is one.
    pub fn reply(&self) -> Option<&Reply> {
        match &self.state {
            State::Adding => None,
            State::Added(reply) => Some(reply),
            State::Failed { had, .. } => had.as_ref(),
        }
    }

    /// Why the last call failed; empty where none has.
    pub fn error(&self) -> &str {
        match &self.state {
            State::Adding | State::Added(_) => "",
            State::Failed { why, .. } => why,
        }
    }

    fn to_value(&self) -> Value {
        let mut value = json!({"network": self.network.document()});
        if let Some(interface) = &self.interface {
            value["interface"] = json!(interface.as_str());
        }
        match &self.state {
            State::Adding => {}
            State::Added(reply) => value["reply"] = reply.to_value(),
            State::Failed { why, had } => {
                value["error"] = json!(why);
                if let Some(reply) = had {
                    value["reply"] = reply.to_value();
                }
            }
        }
        value
    }

    fn from_value(value: &Value) -> Result<Self> {
        let reply = value.get("reply").map(Reply::from_value).transpose()?;
        let state = match (reply, value.get("error").and_then(Value::as_str)) {
            (had, Some(why)) => State::Failed { why: why.to_owned(), had },
            (Some(reply), None) => State::Added(reply),
            (None, None) => State::Adding,
        };
        let interface = value.get("interface").and_then(Value::as_str);
        let network = NetworkConfig::read(value.get("network").unwrap_or(&Value::Null), "network")?;
        Ok(Self { network, interface: interface.map(str::parse).transpose()?, state })
    }
}

fn damaged(field: &str) -> Error {
    Error::bug(format!("{field:?} is damaged"))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value.get(field).and_then(Value::as_str).ok_or_else(|| damaged(field))
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata;

    pub(crate) fn record() -> Record {
        let attachment = |name: &str, interface: Option<&str>, state| Attachment {
            network: NetworkConfig::read(&json!({"name": name, "aci": "file:///a", "x": [1]}), "")
                .unwrap(),
            interface: interface.map(|name| name.parse().unwrap()),
            state,
        };
        let reply = |text: &str| State::Added(Reply::read(text.as_bytes()).unwrap());
        Record {
            pod: "146d7cef-fbf6-41da-a2f8-eba218597f9c".parse().unwrap(),
            netns: "/n/146d7cef".into(),
            is_host: false,
            stage: Stage::Ready,
            wanted: ["a", "b", "c"].map(|name| name.parse().unwrap()).into(),
            attachments: vec![
                attachment(
                    "a",
                    Some("eth0"),
                    reply(r#"{"ip4":{"ip":"10.1.2.3/24","gateway":"10.1.2.1"},"dns":{}}"#),
                ),
                attachment("b", Some("eth1"), State::Failed { why: "no".into(), had: None }),
                attachment(
                    "c",
                    Some("eth1"),
                    reply(
                        r#"{"dns":{"domain":"d","search":["a.b"],"nameservers":["9.9.9.9"],"options":["ndots:2"]}}"#,
                    ),
                ),
                attachment("a", None, State::Adding),
            ],
            skipped: vec![("d".parse().unwrap(), "why".into())],
        }
    }

    #[test]
    fn reads_what_it_writes() {
        let record = record();
        assert_eq!(Record::from_value(&record.to_value()).unwrap(), record);
        let had = record.attachments[0].reply().cloned();
        assert!(had.is_some());
        let mut pending = record.clone();
        pending.attachments[0].state = State::Failed { why: "no".into(), had };
        assert_eq!(Record::from_value(&pending.to_value()).unwrap(), pending);
        for stage in [Stage::Coming, Stage::Going] {
            let record = Record { stage, ..record.clone() };
            assert_eq!(Record::from_value(&record.to_value()).unwrap(), record);
        }
        let error = Record::from_value(&json!({"uuid": record.pod.as_str()})).unwrap_err();
        assert!(error.to_string().starts_with("record of pod 146d7cef"), "{error}");
    }

    #[test]
    fn t15_num_counts_what_is_there() {
        let record = record();
        assert_eq!(record.num(), 2);
        assert!(record.has(&"eth1".parse().unwrap()));
        assert!(!record.has(&"eth2".parse().unwrap()));
        assert_eq!(record.without(), [("d", "why"), ("b", "no")]);
        assert_eq!(record.pending(), [] as [&Name; 0]);
        let going = Record { stage: Stage::Going, ..record };
        assert_eq!(going.pending().len(), 4);
    }

    #[test]
    fn a2_a10_a11_metadata() {
        let mut record = record();
        let networks = metadata::networks(&record);
        assert_eq!(
            networks[0],
            json!({"name": "a", "containerInterface": "eth0",
            "ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1"}})
        );
        assert_eq!(networks.as_array().unwrap().len(), 2);
        let host = "nameserver 1.1.1.1\n";
        let text = "domain d\nsearch a.b\nnameserver 9.9.9.9\noptions ndots:2\n";
        assert_eq!(metadata::resolv(&record, host), text);
        record.attachments.truncate(1);
        assert_eq!(metadata::resolv(&record, host), host);
        assert_eq!(metadata::pod(&record)["skipped"], json!([{"name": "d", "error": "why"}]));
    }
}
