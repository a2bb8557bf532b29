//! The Docker Engines of this host, as they answer a person at a terminal or a browser.

use std::path::PathBuf;
use std::time::Duration;

use config::DockerConfig;
use docker::api::{Api, Container, Network};
use model::{Error, Result};

use crate::cloud::Listed;

/// How long a Docker Engine may take for an answer to a person at a terminal.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// The running containers of each Docker Engine that is asked; `NotFound` where there is none.
pub fn running(config: &DockerConfig) -> Vec<Result<Vec<Container>>> {
    let asked = config.api.iter().filter(|_| config.enabled);
    asked.map(|socket| of(&Api::new(socket.clone(), TIMEOUT))).collect()
}

/// The networks that Docker Engines list, of one question to each.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    /// Those of the engines that answer.
    pub there: Vec<Network>,
    /// The ids of all; none where no engine is asked, or one does not answer in time.
    pub ids: Option<Listed>,
}

/// The networks that the Docker Engines of this host list.
pub fn networks(config: &DockerConfig) -> Networks {
    let ask = |socket: &PathBuf| Api::new(socket.clone(), TIMEOUT).networks().ok();
    let answers: Vec<Option<Vec<Network>>> = config.api.iter().map(ask).collect();
    let is_whole = !answers.is_empty() && answers.iter().all(Option::is_some);
    let there: Vec<Network> = answers.into_iter().flatten().flatten().collect();
    let ids = is_whole.then(|| there.iter().map(|network| network.id.to_string()).collect());
    Networks { there, ids }
}

/// Whether a container of this name runs, on the first Docker Engine that has one. None where none has, or answers.
pub fn runs(config: &DockerConfig, name: &str) -> Option<bool> {
    let asked = config.api.iter().filter(|_| config.enabled);
    let answers =
        asked.filter_map(|socket| Api::new(socket.clone(), TIMEOUT).runs(name).ok().flatten());
    // Of several engines' containers of one name the one that runs is meant.
    answers.reduce(|one, other| one || other)
}

fn of(engine: &Api) -> Result<Vec<Container>> {
    let socket = engine.socket();
    match socket.try_exists() {
        Ok(false) => Err(Error::not_found(format!(
            "there is no Docker Engine at {}: start it, or change api in [docker] of the configuration",
            socket.display()
        ))),
        Ok(true) | Err(_) => engine.containers(),
    }
}
