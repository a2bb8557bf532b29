//! The lists of pods, plugins and images.

use host::exit::exit_code;
use image::{Image, Locator};
use kurma::config::HOST;
use kurma::metadata;
use kurma::plugin::{Standing, Status};
use kurma::pod::{Listed, Record};
use model::Result;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::output::table::Table;
use crate::output::{Output, render};

/// How much of an image's id is shown to people, in characters.
const SHORT: usize = 19;

/// The namespace, and a line for each interface.
pub(super) fn provisioned(record: &Record, output: Output) -> Result<Answer> {
    let pod = metadata::pod(record);
    let table = || {
        let mut table = Table::headless();
        for network in networks(&pod) {
            table.row(interface(network));
        }
        format!("{}\n{}", record.netns.display(), table.text())
    };
    let text = render(output, &pod, table)?;
    let without = record.without().into_iter();
    let notes = without.map(|(name, why)| format!("without network \"{name}\": {why}")).collect();
    Ok(Answer { notes, ..Answer::text(text) })
}

fn networks(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.get("networks").and_then(Value::as_array).into_iter().flatten()
}

/// Its network, its name, and its addresses.
fn interface(network: &Value) -> [String; 3] {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let ip = |family: &str| text(network.get(family).and_then(|ip| ip.get("ip")));
    let addresses = ["ip4", "ip6"].map(ip);
    let addresses: Vec<&str> =
        addresses.iter().map(String::as_str).filter(|address| !address.is_empty()).collect();
    [text(network.get("name")), text(network.get("containerInterface")), addresses.join(",")]
}

/// Every pod with the pending calls of its plugins; of one whose record cannot be read, why.
pub(super) fn pods(listed: &Listed, output: Output) -> Result<Answer> {
    let Listed { records, unreadable } = listed;
    let pod = |record: &Record| {
        let pending: Vec<&str> = record.pending().into_iter().map(kurma::Name::as_str).collect();
        let mut pod = metadata::pod(record);
        pod["pending"] = json!(pending);
        pod["stage"] = json!(record.stage.word());
        pod
    };
    let pods: Vec<Value> = records.iter().map(pod).collect();
    let table = || {
        let mut table = Table::new(&["UUID", "STAGE", "NETWORKS", "PENDING"]);
        for (record, pod) in records.iter().zip(&pods) {
            let connected = match record.is_host {
                true => vec![HOST.to_owned()],
                false => networks(pod).map(|network| interface(network).join(" ")).collect(),
            };
            let connected: Vec<&str> = connected.iter().map(|one| one.trim()).collect();
            let pending: Vec<&str> =
                record.pending().into_iter().map(kurma::Name::as_str).collect();
            let stage = record.stage.word().to_owned();
            table.row([record.pod.to_string(), stage, connected.join("; "), pending.join(",")]);
        }
        table.text()
    };
    let mut answer = render(output, &pods, table).map(Answer::text)?;
    for (pod, error) in unreadable {
        answer.code = answer.code.max(exit_code(error.kind()));
        answer.notes.push(format!("pod {pod}: {error}"));
    }
    Ok(answer)
}

/// Every plugin.
pub(super) fn status(plugins: &[Status], output: Output) -> Result<Answer> {
    let values: Vec<Value> = plugins.iter().map(Status::to_value).collect();
    let table = || {
        let mut table = Table::new(&["NETWORK", "IMAGE", "STATE", "PID", "RESTARTS", "ERROR"]);
        for plugin in plugins {
            let pid = match plugin.standing {
                Standing::Running { pid } => pid.to_string(),
                Standing::Stopped | Standing::Waiting | Standing::Failed | Standing::Refused => {
                    String::new()
                }
            };
            table.row([
                plugin.name.clone(),
                plugin.image.clone(),
                plugin.standing.word().to_owned(),
                pid,
                plugin.restarts.to_string(),
                wrong_with(plugin).unwrap_or_default(),
            ]);
        }
        table.text()
    };
    render(output, &values, table).map(Answer::text)
}

/// The present error, or else the last one.
fn wrong_with(plugin: &Status) -> Option<String> {
    let before = || {
        let why = plugin.last_end.as_ref()?;
        Some(format!("started again: {why}"))
    };
    plugin.error.clone().or_else(|| plugin.outdated()).or_else(|| plugin.former()).or_else(before)
}

/// An image that was fetched.
pub(super) fn pulled(image: &Image, locator: &Locator, output: Output) -> Result<Answer> {
    let view = json!({"id": image.id.to_string(), "name": image.name,
        "locator": locator.to_string()});
    render(output, &view, || format!("{}  {}\n", image.id, image.name)).map(Answer::text)
}

/// The images that are here.
pub(super) fn images(images: &[Image], output: Output) -> Result<Answer> {
    let view = |image: &Image| {
        json!({"id": image.id.to_string(), "name": image.name, "labels": image.labels,
            "app": image.app.is_some()})
    };
    let views: Vec<Value> = images.iter().map(view).collect();
    let table = || {
        let mut table = Table::new(&["ID", "NAME", "VERSION"]);
        for image in images {
            let id: String = image.id.to_string().chars().take(SHORT).collect();
            let version = image.labels.get("version").cloned().unwrap_or_default();
            table.row([id, image.name.clone(), version]);
        }
        table.text()
    };
    render(output, &views, table).map(Answer::text)
}
