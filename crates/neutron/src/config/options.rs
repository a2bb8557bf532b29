//! The options of keystoneauth, from any source: the account, and the cloud.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Error, Result};

use super::{Access, Credential, Domain, Identity, Interface, Named};

/// Longer values are refused, in bytes.
const LONGEST: usize = 16 << 10;

/// Other names of options, of older versions or of the environment.
const OTHER_NAMES: [(&str, &str); 19] = [
    ("auth_plugin", "auth_type"),
    ("user_name", "username"),
    ("tenant_id", "project_id"),
    ("tenant_name", "project_name"),
    ("auth_token", "token"),
    ("region", "region_name"),
    ("os_region_name", "region_name"),
    ("endpoint_type", "interface"),
    ("valid_interfaces", "interface"),
    ("network_interface", "interface"),
    ("endpoint", "endpoint_override"),
    ("url", "endpoint_override"),
    ("network_endpoint_override", "endpoint_override"),
    ("network_endpoint", "endpoint_override"),
    ("cacert", "cafile"),
    ("ca_cert", "cafile"),
    ("api_timeout", "timeout"),
    ("cert", "certfile"),
    ("key", "keyfile"),
];

/// The options that are read. Others in the same file belong to other programs.
pub(super) const KNOWN: [&str; 27] = [
    "auth_type",
    "auth_url",
    "username",
    "user_id",
    "user_domain_id",
    "user_domain_name",
    "password",
    "project_id",
    "project_name",
    "project_domain_id",
    "project_domain_name",
    "default_domain_id",
    "default_domain_name",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
    "token",
    "region_name",
    "interface",
    "endpoint_override",
    "cafile",
    "insecure",
    "timeout",
    "certfile",
    "keyfile",
    "identity_api_version",
    "verify",
];

/// Options by keystoneauth's names, each with its source.
#[derive(Clone, Default)]
pub(super) struct Options {
    values: BTreeMap<&'static str, (String, String)>,
}

impl Options {
    /// Sets an option, with precedence over earlier ones. Returns whether it is known.
    pub(super) fn set(&mut self, name: &str, value: &str, place: &str) -> bool {
        let name = name.to_ascii_lowercase().replace('-', "_");
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name);
        let name = other.map_or(name.as_str(), |(_, name)| name);
        let Some(known) = KNOWN.iter().find(|known| **known == name) else { return false };
        if !value.trim().is_empty() {
            self.values.insert(known, (value.to_owned(), place.to_owned()));
        }
        true
    }

    /// Whether any credentials were given.
    pub(super) fn is_given(&self) -> bool {
        ["auth_url", "endpoint_override"].iter().any(|name| self.values.contains_key(name))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(value, _)| value.trim())
    }

    fn owned(&self, name: &str) -> Option<String> {
        self.get(name).map(ToOwned::to_owned)
    }

    fn error(&self, name: &str, why: &str) -> Error {
        match self.values.get(name) {
            Some((value, place)) => Error::invalid(format!("{place} is {value:?}: {why}")),
            None => Error::invalid(format!("{name} is missing: {why}")),
        }
    }

    fn needed(&self, name: &str, why: &str) -> Result<String> {
        self.owned(name).ok_or_else(|| self.error(name, why))
    }

    /// The access that they describe.
    pub(super) fn access(&self) -> Result<Access> {
        self.check()?;
        let timeout = match self.get("timeout") {
            None => Access::TIMEOUT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|seconds| (1..=3600).contains(seconds))
                .map(Duration::from_secs)
                .ok_or_else(|| self.error("timeout", "give 1 to 3600 seconds"))?,
        };
        let is_unverified = self.flag("verify")?.is_some_and(|verify| !verify);
        Ok(Access {
            region: self.owned("region_name"),
            interface: self.interface()?,
            endpoint: self.owned("endpoint_override"),
            authorities: self.get("cafile").map(Into::into),
            insecure: self.flag("insecure")?.unwrap_or(is_unverified),
            timeout,
            ..Access::of(self.identity()?)
        })
    }

    /// Refuses options that would be ignored without notice.
    fn check(&self) -> Result<()> {
        let long = self.values.values().find(|(value, _)| value.len() > LONGEST);
        if let Some((_, place)) = long {
            return Err(Error::invalid(format!("{place} is longer than {LONGEST} bytes")));
        }
        if let Some((_, place)) = self.values.get("certfile").or(self.values.get("keyfile")) {
            return Err(Error::unsupported(format!(
                "{place}: a client's own certificate is not supported"
            )));
        }
        match self.get("identity_api_version") {
            None | Some("3" | "v3") => Ok(()),
            Some(version) if version.starts_with("3.") => Ok(()),
            Some(_) => Err(self.error("identity_api_version", "only 3 is spoken")),
        }
    }

    fn flag(&self, name: &str) -> Result<Option<bool>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        flag(text).map(Some).ok_or_else(|| self.error(name, "give true or false"))
    }

    /// `public`, `publicURL`, or the first of several.
    fn interface(&self) -> Result<Interface> {
        let text = self.get("interface").unwrap_or("public");
        let first = text.split([',', '\n']).next().unwrap_or(text).trim();
        match first.strip_suffix("URL").unwrap_or(first) {
            "public" => Ok(Interface::Public),
            "internal" => Ok(Interface::Internal),
            "admin" => Ok(Interface::Admin),
            _ => Err(self.error("interface", "give public, internal or admin")),
        }
    }

    fn identity(&self) -> Result<Identity> {
        let has = |name: &str| self.values.contains_key(name);
        let guessed = if has("application_credential_id") || has("application_credential_name") {
            "v3applicationcredential"
        } else if has("password") || has("username") || has("user_id") {
            "password"
        } else if has("token") {
            "token"
        } else if has("endpoint_override") && !has("auth_url") {
            "none"
        } else {
            "password"
        };
        match self.get("auth_type").unwrap_or(guessed) {
            "none" | "noauth" => Ok(Identity::None { project: self.owned("project_id") }),
            // openstacksdk takes it for what the other options say.
            "password" | "v3password"
                if guessed == "v3applicationcredential" && !has("password") =>
            {
                self.application()
            }
            "password" | "v3password" => self.password(),
            "v3applicationcredential" => self.application(),
            "token" | "v3token" => Ok(Identity::Token {
                url: self.auth_url()?,
                token: self.needed("token", "auth_type token needs one")?,
                project: self.named("project")?,
            }),
            _ => {
                let why =
                    "it is not supported; password, v3applicationcredential, token and none are";
                let error = self.error("auth_type", why);
                Err(Error::unsupported(error.to_string()))
            }
        }
    }

    fn password(&self) -> Result<Identity> {
        let user = self
            .named("user")?
            .ok_or_else(|| self.error("username", "a password needs username or user_id"))?;
        let project = self
            .named("project")?
            .ok_or_else(|| self.error("project_name", "give the project that ports are made in"))?;
        let (password, _) =
            self.values.get("password").ok_or_else(|| self.error("password", "give it"))?;
        Ok(Identity::Password { url: self.auth_url()?, user, password: password.clone(), project })
    }

    fn application(&self) -> Result<Identity> {
        let credential = match self.owned("application_credential_id") {
            Some(id) => Credential::Id(id),
            None => Credential::Name {
                name: self.needed("application_credential_name", "or give its id")?,
                user: self.named("user")?.ok_or_else(|| {
                    self.error("username", "an application credential's name needs its user")
                })?,
            },
        };
        let secret = self.needed("application_credential_secret", "give it")?;
        Ok(Identity::Application { url: self.auth_url()?, credential, secret })
    }

    fn auth_url(&self) -> Result<String> {
        self.needed("auth_url", "give Keystone's URL, such as http://keystone:5000/v3")
    }

    /// A user or project: by id, or by name in its domain, the default domain where none is named.
    fn named(&self, what: &str) -> Result<Option<Named>> {
        if let Some(id) = self.owned(&format!("{what}_id")) {
            return Ok(Some(Named::Id(id)));
        }
        let key = if what == "user" { "username" } else { "project_name" };
        let Some(name) = self.owned(key) else { return Ok(None) };
        let domain = [what, "default"].into_iter().find_map(|whose| {
            let id = self.owned(&format!("{whose}_domain_id")).map(Domain::Id);
            id.or_else(|| self.owned(&format!("{whose}_domain_name")).map(Domain::Name))
        });
        let domain = domain.unwrap_or_else(|| Domain::Id("default".to_owned()));
        Ok(Some(Named::Name { name, domain }))
    }
}

/// A switch as oslo reads it.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "t" | "y" => Some(true),
        "false" | "0" | "no" | "off" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// Values whose names are secrets are not shown.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Options {
        let mut options = Options::default();
        for (name, value) in pairs {
            assert!(options.set(name, value, name), "{name}");
        }
        options
    }

    #[test]
    fn each_way_to_sign_on() {
        let url = ("auth_url", "http://k");
        let domain = |id: &str| Domain::Id(id.to_owned());
        let access = options(&[
            url,
            ("user-name", "u"),
            ("password", " p "),
            ("tenant_name", "t"),
            ("project_domain_id", "d"),
            ("endpoint_type", "internalURL"),
            ("timeout", "5"),
            ("region_name", "R"),
            ("verify", "False"),
            ("cacert", "/ca.pem"),
        ])
        .access()
        .unwrap();
        let named = |name: &str, domain| Named::Name { name: name.to_owned(), domain };
        assert_eq!(
            access.identity,
            Identity::Password {
                url: "http://k".to_owned(),
                user: named("u", domain("default")),
                password: " p ".to_owned(),
                project: named("t", domain("d")),
            }
        );
        assert!(access.insecure && access.interface == Interface::Internal);
        assert_eq!(access.timeout, Duration::from_secs(5));
        let credential =
            [url, ("application_credential_id", "i"), ("application_credential_secret", "s")];
        assert!(matches!(
            options(&credential).access().unwrap().identity,
            Identity::Application { .. }
        ));
        let token = [url, ("auth_token", "t"), ("auth_type", "v3token")];
        assert!(matches!(options(&token).access().unwrap().identity, Identity::Token { .. }));
        let none = options(&[("endpoint", "http://n:9696"), ("project_id", "p")]).access().unwrap();
        assert_eq!(none.identity, Identity::None { project: Some("p".to_owned()) });
    }

    #[test]
    fn says_what_is_wrong() {
        let base =
            [("auth_url", "http://k"), ("username", "u"), ("project_id", "p"), ("password", "x")];
        for ((name, value), word) in [
            (("auth_type", "v3kerberos"), "auth_type is \"v3kerberos\""),
            (("interface", "outer"), "give public"),
            (("timeout", "0"), "3600"),
            (("insecure", "maybe"), "true or false"),
            (("identity_api_version", "2.0"), "only 3"),
            (("certfile", "/c"), "certificate"),
        ] {
            let mut options = options(&base);
            options.set(name, value, name);
            let error = options.access().unwrap_err().to_string();
            assert!(error.contains(word) && error.contains(name), "{error}");
        }
        for missing in 0..base.len() {
            let mut fewer = base.to_vec();
            let (name, _) = fewer.remove(missing);
            let error = options(&fewer).access().unwrap_err().to_string();
            assert!(error.contains("missing") || error.contains(name), "{error}");
        }
        assert!(!Options::default().set("max_pool_size", "9", "x"));
        assert!(!format!("{:?}", options(&base)).contains('x'));
    }
}
