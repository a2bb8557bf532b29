//! The Docker Engines of this host, as they answer a person at a terminal or a browser.

use std::time::Duration;

use config::DockerConfig;
use docker::api::{Api, Container};
use model::Result;

/// How long a Docker Engine may take for an answer to a person at a terminal.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// The running containers of each Docker Engine that is asked.
pub fn running(config: &DockerConfig) -> Vec<Result<Vec<Container>>> {
    let asked = config.api.iter().filter(|_| config.enabled);
    asked.map(|socket| Api::new(socket.clone(), TIMEOUT).containers()).collect()
}
