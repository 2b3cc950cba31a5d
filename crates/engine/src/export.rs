//! Starting what sends profiles, with the engine's log for its words.

use std::sync::Arc;

use config::{Config, LogLevel};
use export::{Exporter, Identity, Say};

use crate::log::Log;

/// Starts the exporter; `None` if profiles are sent nowhere, or can't be, which is said.
pub fn start(
    config: &Config,
    runtime_version: &str,
    id: [u8; 16],
    log: &Log,
) -> Option<Arc<Exporter>> {
    let identity = Identity::new(config, runtime_version, id);
    let started = Exporter::start(config, identity, std::env::temp_dir(), say(log.clone()));
    match started {
        Ok(exporter) => exporter.map(Arc::new),
        Err(error) => {
            log.error(&format!("{error}. Profiles are sent nowhere"));
            None
        }
    }
}

fn say(log: Log) -> Say {
    Arc::new(move |level, text| match level {
        LogLevel::Off => {}
        LogLevel::Error => log.error(text),
        LogLevel::Warn => log.warn(text),
        LogLevel::Info => log.info(text),
        LogLevel::Debug => log.debug(text),
    })
}
