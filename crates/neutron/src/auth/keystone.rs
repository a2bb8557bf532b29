//! Keystone's identity API v3: a token for who we are, and where Neutron is.

use std::time::Instant;

use model::{Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::time;
use crate::api::Verb;
use crate::config::{Access, Credential, Domain, Identity, Interface, Named};
use crate::exchange::{Answer, Exchange, Wire, base, refused};

/// The token and its scope.
#[derive(Debug)]
pub(super) struct Grant {
    /// The token.
    pub(super) token: String,
    /// For how long it is good from now on, in seconds.
    pub(super) lifetime: u64,
    /// In which project.
    pub(super) project: Option<String>,
    /// Neutron.
    pub(super) endpoint: String,
}

/// The credentials, and the request body for them.
struct SignOn<'a> {
    url: &'a str,
    identity: Value,
    scope: Option<Value>,
}

/// Asks for a token.
pub(super) fn grant((wire, until): (&Wire, Option<Instant>), access: &Access) -> Result<Grant> {
    let Some(sign_on) = sign_on(&access.identity) else {
        return Err(Error::bug("a cloud without Keystone was asked for a token"));
    };
    let url = format!("{}/auth/tokens", v3(sign_on.url)?);
    if let Identity::Token { token, project: None, .. } = &access.identity {
        return inspect((wire, until), access, &url, token);
    }
    let mut auth = json!({ "identity": sign_on.identity });
    if let Some(scope) = sign_on.scope {
        auth["scope"] = scope;
    }
    let body = Some(json!({ "auth": auth }).to_string().into_bytes());
    let exchange = Exchange { until, ..ask(Verb::Post, &url, &[], body) };
    let answer = wire.carry(&exchange)?;
    let token = match (answer.is_success(), &answer.token) {
        (false, _) => return Err(refused(&exchange, &answer)),
        (true, None) => return Err(odd(&url, "it gives no token")),
        (true, Some(token)) => token.clone(),
    };
    read(access, &url, token, &answer)
}

/// The scope of a token that another program got.
fn inspect(
    (wire, until): (&Wire, Option<Instant>),
    access: &Access,
    url: &str,
    token: &str,
) -> Result<Grant> {
    let headers = [("x-auth-token", token), ("x-subject-token", token)];
    let exchange = Exchange { until, ..ask(Verb::Get, url, &headers, None) };
    let answer = wire.carry(&exchange)?;
    match answer.is_success() {
        true => read(access, url, token.to_owned(), &answer),
        false => Err(refused(&exchange, &answer)),
    }
}

/// To sign on twice does no harm.
fn ask<'a>(
    verb: Verb,
    url: &'a str,
    headers: &'a [(&'static str, &'a str)],
    body: Option<Vec<u8>>,
) -> Exchange<'a> {
    Exchange { server: "Keystone", verb, url, headers, body, is_repeatable: true, until: None }
}

/// Keystone's URL with its version.
pub(super) fn v3(url: &str) -> Result<String> {
    let url = base("auth_url", url)?;
    if url.ends_with("/v2.0") {
        return Err(Error::unsupported(format!(
            "auth_url {url}: Keystone's API v2.0 is gone; use v3"
        )));
    }
    Ok(if url.ends_with("/v3") { url } else { format!("{url}/v3") })
}

fn sign_on(identity: &Identity) -> Option<SignOn<'_>> {
    let scope = |project: &Named| json!({ "project": named(project) });
    Some(match identity {
        Identity::None { .. } => return None,
        Identity::Password { url, user, password, project } => {
            let mut user = named(user);
            user["password"] = json!(password);
            let identity = json!({ "methods": ["password"], "password": { "user": user } });
            SignOn { url, identity, scope: Some(scope(project)) }
        }
        Identity::Application { url, credential, secret } => {
            let mut credential = match credential {
                Credential::Id(id) => json!({ "id": id }),
                Credential::Name { name, user } => json!({ "name": name, "user": named(user) }),
            };
            credential["secret"] = json!(secret);
            let identity = json!({
                "methods": ["application_credential"], "application_credential": credential,
            });
            SignOn { url, identity, scope: None }
        }
        Identity::Token { url, token, project } => {
            let identity = json!({ "methods": ["token"], "token": { "id": token } });
            SignOn { url, identity, scope: project.as_ref().map(scope) }
        }
    })
}

fn named(named: &Named) -> Value {
    match named {
        Named::Id(id) => json!({ "id": id }),
        Named::Name { name, domain: Domain::Id(id) } => {
            json!({ "name": name, "domain": { "id": id } })
        }
        Named::Name { name, domain: Domain::Name(domain) } => {
            json!({ "name": name, "domain": { "name": domain } })
        }
    }
}

/// Keystone's answer, as far as it is needed.
#[derive(Deserialize)]
struct Token {
    expires_at: String,
    #[serde(default)]
    issued_at: Option<String>,
    #[serde(default)]
    project: Option<Project>,
    #[serde(default)]
    catalog: Option<Vec<Service>>,
}

#[derive(Deserialize)]
struct Project {
    id: String,
}

#[derive(Deserialize)]
struct Service {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(default)]
    interface: Option<String>,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    region_id: Option<String>,
    #[serde(default)]
    url: Option<String>,
}

fn read(access: &Access, url: &str, token: String, answer: &Answer) -> Result<Grant> {
    let found = answer.body.get("token").cloned().unwrap_or_default();
    let found: Token = serde_json::from_value(found)
        .map_err(|cause| odd(url, "its answer cannot be understood").because(cause))?;
    let is_plain =
        (1..=16_384).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    if !is_plain {
        return Err(odd(url, "its token is not valid"));
    }
    let endpoint = match &access.endpoint {
        Some(endpoint) => neutron(endpoint)?,
        None => choose(access, url, found.catalog.as_deref().unwrap_or_default())?,
    };
    Ok(Grant {
        token,
        lifetime: lifetime(&found, url, &access.identity)?,
        project: found.project.map(|project| project.id),
        endpoint,
    })
}

/// The lifetime from the token's issue, so that Keystone's clock and this host's need not agree.
fn lifetime(token: &Token, url: &str, identity: &Identity) -> Result<u64> {
    let end = time::seconds(&token.expires_at)
        .ok_or_else(|| odd(url, &format!("its token expires at {:?}", token.expires_at)))?;
    let is_new = !matches!(identity, Identity::Token { project: None, .. });
    let begin = token.issued_at.as_deref().filter(|_| is_new).and_then(time::seconds);
    let now = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.ok().and_then(|now| i64::try_from(now.as_secs()).ok()).unwrap_or_default()
    };
    Ok(u64::try_from(end - begin.unwrap_or_else(now)).unwrap_or_default())
}

fn odd(url: &str, what: &str) -> Error {
    Error::try_again(format!("Keystone at {url}: {what}"))
}

/// The endpoint of the service `network` that is meant.
fn choose(access: &Access, url: &str, catalog: &[Service]) -> Result<String> {
    let interface = match access.interface {
        Interface::Public => "public",
        Interface::Internal => "internal",
        Interface::Admin => "admin",
    };
    let services = catalog.iter().filter(|service| service.kind.as_deref() == Some("network"));
    let all: Vec<&Endpoint> =
        services.flat_map(|service| service.endpoints.iter().flatten()).collect();
    let is_meant = |endpoint: &Endpoint| {
        let is_there = |region: &String| {
            [&endpoint.region_id, &endpoint.region].into_iter().flatten().any(|own| own == region)
        };
        endpoint.interface.as_deref() == Some(interface) && access.region.iter().all(is_there)
    };
    let found = all.iter().find(|endpoint| is_meant(endpoint)).and_then(|it| it.url.as_deref());
    found.map(neutron).unwrap_or_else(|| {
        let region = access.region.as_deref().unwrap_or("any");
        let listed: Vec<String> = all
            .iter()
            .take(8)
            .map(|endpoint| {
                let text = |value: &Option<String>| value.clone().unwrap_or_default();
                format!("{} in {}", text(&endpoint.interface), text(&endpoint.region))
            })
            .collect();
        Err(Error::invalid(format!(
            "Keystone at {url} lists no {interface} endpoint of the service network in region \
             {region}; it lists: {}",
            if listed.is_empty() { "none".to_owned() } else { listed.join(", ") }
        )))
    })
}

/// Neutron's URL without its version.
pub(super) fn neutron(endpoint: &str) -> Result<String> {
    let url = base("endpoint", endpoint)?;
    Ok(url.strip_suffix("/v2.0").map(ToOwned::to_owned).unwrap_or(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(region: Option<&str>, interface: Interface) -> Access {
        let identity = Identity::None { project: None };
        Access { region: region.map(ToOwned::to_owned), interface, ..Access::of(identity) }
    }

    fn catalog() -> Vec<Service> {
        serde_json::from_value(json!([
            {"type": "compute", "endpoints": [{"interface": "public", "url": "http://nova"}]},
            {"type": null, "endpoints": null},
            {"type": "network", "endpoints": [
                {"interface": "internal", "region": "a", "region_id": "a", "url": "http://int.a/v2.0/"},
                {"interface": "public", "region": "a", "url": "http://pub.a:9696/"},
                {"interface": "public", "region_id": "b", "url": "https://b/networking"},
                {"interface": "admin", "url": null},
            ]},
        ]))
        .unwrap()
    }

    #[test]
    fn chooses_by_region_and_interface() {
        let chosen = |region, interface| choose(&access(region, interface), "k", &catalog());
        assert_eq!(chosen(None, Interface::Public).unwrap(), "http://pub.a:9696");
        assert_eq!(chosen(Some("b"), Interface::Public).unwrap(), "https://b/networking");
        assert_eq!(chosen(Some("a"), Interface::Internal).unwrap(), "http://int.a");
        for (region, interface) in [(Some("c"), Interface::Public), (None, Interface::Admin)] {
            let error = chosen(region, interface).unwrap_err().to_string();
            assert!(error.contains("public in a"), "{error}");
        }
    }

    #[test]
    fn keystones_url_has_its_version() {
        assert_eq!(v3("http://k:5000").unwrap(), "http://k:5000/v3");
        assert_eq!(v3("http://k/identity/v3/").unwrap(), "http://k/identity/v3");
        assert!(v3("http://k:5000/v2.0").is_err());
    }

    #[test]
    fn signs_on_in_each_way() {
        let url = "http://k".to_owned();
        let by_name = |name: &str| Named::Name {
            name: name.to_owned(),
            domain: Domain::Name("Default".to_owned()),
        };
        let identity = Identity::Password {
            url: url.clone(),
            user: by_name("me"),
            password: "secret".to_owned(),
            project: Named::Id("p".to_owned()),
        };
        let sent = sign_on(&identity).unwrap();
        assert_eq!(sent.identity["password"]["user"]["domain"]["name"], "Default");
        assert_eq!(sent.scope.unwrap(), json!({"project": {"id": "p"}}));
        assert_eq!(format!("{identity:?}"), "password");
        let credential = Credential::Name { name: "c".to_owned(), user: by_name("me") };
        let identity = Identity::Application { url, credential, secret: "s".to_owned() };
        let sent = sign_on(&identity).unwrap();
        assert_eq!(sent.identity["application_credential"]["user"]["name"], "me");
        assert!(sent.scope.is_none());
    }
}
