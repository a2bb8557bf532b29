//! Words about interfaces, as the engine at the other end handles them.

use std::net::IpAddr;
use std::path::Path;

use model::{IpNet, Result};
use serde_json::Value;

use super::super::run::{Run, Step, Stop, Undo, fail};
use super::super::sandbox;

pub(super) fn carry_out(run: &mut Run<'_>, word: &str, args: &[String]) -> Option<Step> {
    let arg = |index: usize| args.get(index).map_or("", String::as_str);
    let is_looked_at = run.vars.get("sandboxes").is_some_and(|is| !is.is_empty());
    Some(match word {
        "links-before" | "links-after" if !is_looked_at => Ok(()),
        "links-before" => tried(sandbox::links()).map(|links| {
            run.vars.insert("links".to_owned(), links.join(" "));
        }),
        "links-after" => strays(run),
        "sandbox" => make(run, arg(0)),
        "sandbox-key" => {
            let id = run.vars.get("ep").cloned().unwrap_or_default();
            run.vars.insert(arg(0).to_owned(), sandbox::key(&id).display().to_string());
            Ok(())
        }
        "lose" => tried(netlink::Netns::unmake(arg(0).as_ref())),
        "move-in" => move_in(run, arg(0).as_ref(), arg(1), (arg(2), arg(3))),
        "move-out" => tried(sandbox::move_out(arg(0).as_ref(), IN_SANDBOX, arg(1))),
        "there" => there(arg(0)).map(drop),
        "gone" => gone(arg(0)),
        "talk" => match tried(sandbox::talk(arg(0).as_ref(), arg(1).as_ref(), arg(2))) {
            Ok(true) => Ok(()),
            Ok(false) => fail(format!("{} is not reached from the other sandbox", arg(2))),
            Err(stop) => Err(stop),
        },
        _ => return None,
    })
}

/// An engine's name of the first interface.
const IN_SANDBOX: &str = "eth0";

/// A refusal of the host is not the plugin's fault.
fn tried<T>(done: Result<T>) -> Result<T, Stop> {
    done.map_err(|error| Stop::Skip(error.to_string()))
}

fn make(run: &mut Run<'_>, var: &str) -> Step {
    let id = run.vars.get("ep").cloned().unwrap_or_default();
    // Where the endpoint joins again, it is the same sandbox.
    let path = tried(sandbox::make(&id))?.display().to_string();
    run.undo.push(Undo::Sandbox(path.clone()));
    run.vars.insert(var.to_owned(), path);
    Ok(())
}

fn there(name: &str) -> Result<netlink::Link, Stop> {
    match sandbox::link(name) {
        Ok(Some(link)) => Ok(link),
        Ok(None) => fail(format!("{name}, which Join names, is not among this host's interfaces")),
        Err(error) => fail(format!("Join names {name:?}: {error}")),
    }
}

fn move_in(run: &mut Run<'_>, path: &Path, src: &str, (ip, mac): (&str, &str)) -> Step {
    let link = there(src)?;
    if let Some(wrong) = sandbox::wrong_with(&link) {
        return fail(wrong);
    }
    match sandbox::move_in(path, &link, IN_SANDBOX, (mac.parse().ok(), &[ip])) {
        Ok(moved) if moved.mac != link.mac => {
            run.warnings.push(format!("{src} changes its address when it is moved"));
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => fail(format!("{src} cannot be moved into a sandbox: {error}")),
    }
}

fn gone(name: &str) -> Step {
    match tried(sandbox::soon(|| Ok(sandbox::link(name)?.is_none())))? {
        true => Ok(()),
        false => fail(format!("{name} is still there after DeleteEndpoint")),
    }
}

fn strays(run: &mut Run<'_>) -> Step {
    let before = run.vars.get("links").cloned().unwrap_or_default();
    let before: Vec<&str> = before.split(' ').collect();
    let mut strays = Vec::new();
    let is_clean = sandbox::soon(|| {
        strays = sandbox::links()?;
        strays.retain(|name| !before.contains(&name.as_str()));
        Ok(strays.is_empty())
    });
    match tried(is_clean)? {
        true => Ok(()),
        false => fail(format!("interfaces are left over: {}", strays.join(" "))),
    }
}

/// "Routes are either given a RouteType of 0 and a value for NextHop; or, a RouteType of 1 and no
/// value for NextHop" (remote.md, Join).
pub(super) fn routes(run: &mut Run<'_>) -> Step {
    let text = run.last().text("StaticRoutes");
    let routes: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
    if routes.is_empty() && !text.is_empty() && text != "[]" {
        return fail(format!("StaticRoutes is no list of routes: {text}"));
    }
    for route in &routes {
        let field = |name: &str| route.get(name).and_then(Value::as_str).unwrap_or_default();
        let (to, via) = (field("Destination"), field("NextHop"));
        let kind = route.get("RouteType").and_then(Value::as_i64);
        let Ok(net) = to.parse::<IpNet>() else {
            return fail(format!("the Destination {to:?} of a route is no subnet"));
        };
        match (kind, via.parse::<IpAddr>()) {
            (Some(0), Ok(_)) => {}
            (Some(1), _) if via.is_empty() => {}
            _ => {
                return fail(format!(
                    "the route {route} has no RouteType 0 and NextHop, or 1 and none"
                ));
            }
        }
        if net.prefix_len() == 0 {
            let why = "a default route among StaticRoutes: engines 28 and 29 fail (type 0), 20.10 \
                to 24 fail (type 1); answer it as Gateway";
            run.warnings.push(why.to_owned());
        }
    }
    Ok(())
}
