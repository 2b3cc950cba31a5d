//! Datadog: a form of two parts, `event.json` and the profile, to the agent on the host or to the
//! intake itself.

use std::io;
use std::path::Path;

use config::{DatadogConfig, Target};
use profile::Profile;
use profile::datadog::{ATTACHMENT, event};
use profile::pprof::{self, Dialect};

use crate::destination::{BadDestination, Destination, address, seq};
use crate::identity::{Identity, distinct};
use crate::parcel::{Parcel, checksum};

const AGENT_PATH: &str = "/profiling/v1/input";
const INTAKE_PATH: &str = "/api/v2/profile";
/// Where Datadog's agent has its socket.
const SOCKET: &str = "/var/run/datadog/apm.socket";
/// What the profile is for: the target of the build.
const PLATFORM: &str = if cfg!(target_arch = "x86_64") {
    "x86_64-unknown-linux-gnu"
} else {
    "aarch64-unknown-linux-gnu"
};

pub(crate) fn destination(config: &DatadogConfig) -> Result<Destination, BadDestination> {
    let mut headers = vec![
        ("DD-EVP-ORIGIN".to_owned(), config::Secret::new("corprof".to_owned())),
        (
            "DD-EVP-ORIGIN-VERSION".to_owned(),
            config::Secret::new(env!("CARGO_PKG_VERSION").to_owned()),
        ),
    ];
    let address = if config.is_agentless {
        if config.api_key.is_empty() {
            return Err(BadDestination::NoKey);
        }
        headers.push(("DD-API-KEY".to_owned(), config.api_key.clone()));
        let intake = format!("https://intake.profile.{}", config.site);
        // A whole address is for tests and for proxies of the intake.
        let given = if config.url.is_empty() { &intake } else { config.url.reveal() };
        address("CORPROF_DATADOG_SITE", given)?.join(INTAKE_PATH)
    } else {
        address("CORPROF_DATADOG_URL", &agent(config, Path::new(SOCKET)))?.join(AGENT_PATH)
    };
    let (account, secrets) = (String::new(), Vec::new());
    Ok(Destination { target: Target::Datadog, address, headers, account, secrets })
}

/// The agent's address: as it is set, or by its host and port, or where agents are by default.
fn agent(config: &DatadogConfig, socket: &Path) -> String {
    if !config.url.is_empty() {
        return config.url.reveal().to_owned();
    }
    if config.host.is_empty() && socket.exists() {
        return format!("unix://{}", socket.display());
    }
    let host = if config.host.is_empty() { "localhost" } else { &config.host };
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("http://{host}:{}", config.port)
}

pub(crate) fn parcel(profile: &Profile, identity: &Identity) -> io::Result<Parcel> {
    let event = event(profile, &tags(profile, identity));
    let pprof = pprof::write_for(Dialect::Full, profile, Vec::new())?;
    // No part has it: it is made of what is in them.
    let boundary = format!("corprof-{:016x}{:016x}", checksum(event.as_bytes()), checksum(&pprof));
    let mut body = Vec::with_capacity(pprof.len().saturating_add(event.len()).saturating_add(512));
    part(&mut body, &boundary, ("event", "event.json", "application/json"), event.as_bytes());
    part(&mut body, &boundary, (ATTACHMENT, ATTACHMENT, "application/octet-stream"), &pprof);
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(Parcel {
        target: Target::Datadog,
        start_unix_ns: profile.period.start_unix_ns,
        content_type: format!("multipart/form-data; boundary={boundary}"),
        is_gzipped: false,
        body: body.into(),
    })
}

fn part(body: &mut Vec<u8>, boundary: &str, (name, file, kind): (&str, &str, &str), bytes: &[u8]) {
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\
         Content-Type: {kind}\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(bytes);
    body.extend_from_slice(b"\r\n");
}

fn tags(profile: &Profile, identity: &Identity) -> Vec<(String, String)> {
    let version = identity.runtime_version.split_once(' ').map_or("", |(_, version)| version);
    let own = [
        ("language", "dotnet".to_owned()),
        ("runtime_version", version.to_owned()),
        ("profiler_version", identity.agent_version.clone()),
        ("service", identity.service.clone()),
        ("env", identity.environment.clone()),
        ("version", identity.version.clone()),
        ("host", identity.host.clone()),
        ("process_id", identity.pid.to_string()),
        ("runtime-id", identity.uuid()),
        ("profile_seq", seq(profile).to_string()),
    ];
    let platform = [("runtime_platform".to_owned(), PLATFORM.to_owned())];
    let further = identity.tags.iter().chain(&identity.datadog_tags).chain(&platform);
    distinct(own, further)
}

#[cfg(test)]
mod tests {
    use config::Secret;

    use super::*;

    #[test]
    fn the_agent_is_where_it_is_set_or_where_agents_are() {
        let there = Path::new("/proc/self/status");
        let nowhere = Path::new("/nowhere");
        let config = DatadogConfig { port: 8126, ..DatadogConfig::default() };
        assert_eq!(agent(&config, nowhere), "http://localhost:8126");
        assert_eq!(agent(&config, there), "unix:///proc/self/status");
        let host = DatadogConfig { host: "dd".into(), port: 1, ..config.clone() };
        assert_eq!(agent(&host, there), "http://dd:1");
        let v6 = DatadogConfig { host: "::1".into(), ..config };
        assert_eq!(agent(&v6, there), "http://[::1]:8126");
        let url = DatadogConfig { url: Secret::new("unix:///s".into()), ..host };
        assert_eq!(agent(&url, there), "unix:///s");
        let destination = destination(&url).expect("a destination");
        assert_eq!(destination.address.to_string(), "unix:///s/profiling/v1/input");
    }

    #[test]
    fn without_an_agent_there_has_to_be_a_key() {
        let config = DatadogConfig {
            is_agentless: true,
            site: "datadoghq.eu".into(),
            ..DatadogConfig::default()
        };
        assert_eq!(destination(&config).map(|_| ()), Err(BadDestination::NoKey));
        let config = DatadogConfig { api_key: Secret::new("key".into()), ..config };
        let found = destination(&config).expect("a destination");
        assert_eq!(found.address.to_string(), "https://intake.profile.datadoghq.eu/api/v2/profile");
        assert!(
            found.headers.iter().any(|(name, key)| name == "DD-API-KEY" && key.reveal() == "key")
        );
        assert!(found.hidden().contains(&"key".to_owned()));
    }
}
