//! The rights of a plugin container. Its image asks; only the operator's configuration grants.

use std::collections::BTreeSet;

use container::{Capabilities, Capability};
use image::{App, CapabilityChange, Image};
use model::{Error, Kind, Result};

use crate::config::{Grant, Sandboxing};

/// The rights of a container's processes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) is_privileged: bool,
    pub(super) capabilities: Capabilities,
    pub(super) no_new_privileges: bool,
}

/// The rights that were asked for and not granted.
#[derive(Debug, Default)]
struct Refused {
    privileged: bool,
    items: BTreeSet<Grant>,
}

/// The rights of `app`. `has_book` says whether the host's store can be shared at all.
///
/// # Errors
/// [`Kind::Denied`] with everything that the image asks for and was not granted.
pub(super) fn of(
    image: &Image,
    app: &App,
    sandboxing: &Sandboxing,
    has_book: bool,
) -> Result<Rights> {
    let is_privileged = sandboxing.privileged;
    if !is_privileged {
        let mut refused =
            Refused { privileged: app.isolators.privileged, items: asked(app, has_book)? };
        refused.items.retain(|item| !sandboxing.grant.contains(item));
        refused.check(image)?;
    }
    // An image can give up what it could have; it gains nothing by `false`.
    let gives_up = app.isolators.no_new_privileges == Some(true);
    let no_new_privileges = gives_up || !is_privileged;
    let capabilities = capabilities(app, sandboxing)?;
    Ok(Rights { is_privileged, capabilities, no_new_privileges })
}

/// The rights that the image asks for beyond the common ones.
fn asked(app: &App, has_book: bool) -> Result<BTreeSet<Grant>> {
    let mut asked = BTreeSet::new();
    if let Some(CapabilityChange::Retain(names)) = &app.isolators.capabilities {
        let usual = usual(&BTreeSet::new());
        let more = parse(names)?.into_iter().filter(|one| !usual.contains(one));
        asked.extend(more.map(Grant::Capability));
    }
    if has_book {
        let points = app.mount_points.iter();
        asked.extend(points.filter_map(|point| Grant::of_mount_point(&point.name)));
    }
    Ok(asked)
}

fn capabilities(app: &App, sandboxing: &Sandboxing) -> Result<Capabilities> {
    if sandboxing.privileged {
        return Ok(Capabilities::All);
    }
    let set = match &app.isolators.capabilities {
        Some(CapabilityChange::Retain(names)) => parse(names)?,
        Some(CapabilityChange::Remove(names)) => &usual(&sandboxing.grant) - &parse(names)?,
        None => usual(&sandboxing.grant),
    };
    Ok(Capabilities::Set(set))
}

/// The rights of a network plugin, and the granted ones.
fn usual(granted: &BTreeSet<Grant>) -> BTreeSet<Capability> {
    let mut set = match Capabilities::of_network_plugin() {
        Capabilities::Set(set) => set,
        Capabilities::All => BTreeSet::new(),
    };
    set.extend(granted.iter().filter_map(|grant| match grant {
        Grant::Capability(capability) => Some(*capability),
        Grant::Runtime | Grant::State | Grant::Config => None,
    }));
    set
}

fn parse(names: &[String]) -> Result<BTreeSet<Capability>> {
    names.iter().map(|name| name.parse()).collect()
}

impl Refused {
    fn check(&self, image: &Image) -> Result<()> {
        if !self.privileged && self.items.is_empty() {
            return Ok(());
        }
        let items: Vec<_> = self.items.iter().map(ToString::to_string).collect();
        let mut asked = items.clone();
        let mut fields = Vec::new();
        if self.privileged {
            asked.insert(0, "privileged".to_owned());
            // An operator who grants that has granted the rest.
            fields.push("\"privileged\": true".to_owned());
        } else {
            fields.push(format!("\"grant\": [\"{}\"]", items.join("\", \"")));
        }
        let what = format!(
            "image {} asks for {}, and its network's configuration does not grant that: add {} there if \
             you trust this image",
            image.name,
            asked.join(", "),
            fields.join(", ")
        );
        Err(Error::new(Kind::Denied, what))
    }
}

#[cfg(test)]
mod tests {
    use image::MountPoint;

    use super::*;

    fn image() -> Image {
        let id = format!("sha256-{}", "0".repeat(64)).parse().unwrap();
        let labels = std::collections::BTreeMap::new();
        Image { id, name: "krm.test/x".into(), labels, app: None, layers: Vec::new() }
    }

    fn sandboxing(privileged: bool, grant: &[&str]) -> Sandboxing {
        let grant = grant.iter().map(|word| word.parse().unwrap()).collect();
        Sandboxing { privileged, grant, ..Sandboxing::default() }
    }

    fn retaining(names: &[&str]) -> App {
        let names = names.iter().map(ToString::to_string).collect();
        let mut app = App::default();
        app.isolators.capabilities = Some(CapabilityChange::Retain(names));
        app
    }

    fn mounting(name: &str) -> App {
        let point = MountPoint { name: name.into(), path: "/var/x".into(), read_only: false };
        App { mount_points: vec![point], ..App::default() }
    }

    #[track_caller]
    fn refusal(app: &App, sandboxing: &Sandboxing) -> String {
        let error = of(&image(), app, sandboxing, true).unwrap_err();
        assert_eq!(error.kind(), Kind::Denied);
        error.to_string()
    }

    #[test]
    fn an_image_gets_nothing_by_asking() {
        let mut app = retaining(&["CAP_SYS_MODULE", "CAP_NET_ADMIN", "CAP_SYS_PTRACE"]);
        app.isolators.privileged = true;
        let answer = refusal(&app, &sandboxing(false, &[]));
        assert!(
            answer.contains("asks for privileged, CAP_SYS_MODULE, CAP_SYS_PTRACE,"),
            "{answer}"
        );
        assert!(answer.contains("\"privileged\": true"), "{answer}");
        let answer =
            refusal(&retaining(&["CAP_SYS_RAWIO"]), &sandboxing(false, &["CAP_SYS_MODULE"]));
        assert!(answer.contains("asks for CAP_SYS_RAWIO,"), "{answer}");
        assert!(answer.contains("\"grant\": [\"CAP_SYS_RAWIO\"]"), "{answer}");
        for name in ["spoke-runtime", "spoke-state", "spoke-config"] {
            let answer = refusal(&mounting(name), &sandboxing(false, &["CAP_SYS_RAWIO"]));
            assert!(answer.contains(&format!("asks for {name},")), "{answer}");
            of(&image(), &mounting(name), &sandboxing(false, &[name]), true).unwrap();
            of(&image(), &mounting(name), &sandboxing(true, &[]), true).unwrap();
            of(&image(), &mounting(name), &sandboxing(false, &[]), false).unwrap();
        }
        of(&image(), &mounting("data"), &sandboxing(false, &[]), true).unwrap();
    }

    #[test]
    fn an_image_can_ask_for_less() {
        let none = sandboxing(false, &[]);
        let mut app = retaining(&["CAP_NET_ADMIN"]);
        app.isolators.no_new_privileges = Some(false);
        let rights = of(&image(), &app, &none, true).unwrap();
        let one = "CAP_NET_ADMIN".parse().unwrap();
        assert_eq!(rights.capabilities, Capabilities::Set([one].into()));
        assert!(rights.no_new_privileges, "an image does not turn that off");
        app.isolators.capabilities = Some(CapabilityChange::Remove(vec!["CAP_NET_ADMIN".into()]));
        let rights = of(&image(), &app, &none, true).unwrap();
        let Capabilities::Set(set) = rights.capabilities else { panic!("a set") };
        assert!(!set.contains(&one) && !set.is_empty());
    }

    #[test]
    fn what_is_granted_is_had() {
        let granted = sandboxing(false, &["CAP_SYS_MODULE"]);
        let module = "CAP_SYS_MODULE".parse().unwrap();
        for app in [retaining(&["CAP_SYS_MODULE"]), App::default()] {
            let rights = of(&image(), &app, &granted, true).unwrap();
            let Capabilities::Set(set) = rights.capabilities else { panic!("a set") };
            assert!(set.contains(&module) && !rights.is_privileged);
        }
        let rights = of(&image(), &App::default(), &sandboxing(true, &[]), true).unwrap();
        assert_eq!(rights.capabilities, Capabilities::All);
        assert!(!rights.no_new_privileges && rights.is_privileged);
    }
}
