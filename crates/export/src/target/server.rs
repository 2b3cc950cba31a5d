//! `corprof serve`: a push request as Pyroscope's, and in it the profile as files have it, with all
//! that there is.

use std::io;

use config::{Secret, ServerConfig, Target};
use profile::Profile;
use profile::pprof::write;
use profile::pyroscope::push_request;

use crate::destination::{BadDestination, Destination, address, seq};
use crate::identity::{Identity, distinct};
use crate::parcel::Parcel;

const PATH: &str = "/push.v1.PusherService/Push";
const DEFAULT: &str = "http://localhost:4041";

pub(crate) fn destination(config: &ServerConfig) -> Result<Destination, BadDestination> {
    let url = if config.url.is_empty() { DEFAULT } else { config.url.reveal() };
    let address = address("CORPROF_SERVER_URL", url)?.join(PATH);
    let mut headers = Vec::new();
    if !config.token.is_empty() {
        let value = Secret::new(format!("Bearer {}", config.token.reveal()));
        headers.push(("Authorization".to_owned(), value));
    }
    let (account, secrets) = (String::new(), vec![config.token.clone()]);
    Ok(Destination { target: Target::Server, address, headers, account, secrets })
}

pub(crate) fn parcel(profile: &Profile, identity: &Identity) -> io::Result<Parcel> {
    let pprof = write(profile, Vec::new())?;
    let id = format!("{}-{}", identity.uuid(), seq(profile));
    // In a container each process is number 1. Files of others name no process, and who sends one
    // is another process each time.
    let instance = profile
        .report
        .as_ref()
        .map_or(String::new(), |_| format!("{} {}", identity.host, identity.pid).trim().to_owned());
    let own = [
        ("service_name", identity.service.clone()),
        ("version", identity.version.clone()),
        ("instance", instance),
        ("environment", identity.environment.clone()),
    ];
    let labels = distinct(own, &identity.tags);
    Ok(Parcel {
        target: Target::Server,
        start_unix_ns: profile.period.start_unix_ns,
        content_type: "application/proto".to_owned(),
        is_gzipped: false,
        body: push_request(&labels, &pprof, &id).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_sent_and_not_shown() {
        let secret = |text: &str| Secret::new(text.to_owned());
        let config = ServerConfig { url: secret("http://profiles:1"), token: secret("word") };
        let found = destination(&config).expect("a destination");
        assert_eq!(found.address.to_string(), format!("http://profiles:1{PATH}"));
        let sent = found.headers.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        assert_eq!(sent.collect::<Vec<_>>(), [("Authorization", "Bearer word")]);
        assert!(found.hidden().contains(&"word".to_owned()));
        let default = destination(&ServerConfig::default()).expect("a destination");
        assert_eq!(default.address.to_string(), format!("{DEFAULT}{PATH}"));
        assert!(default.headers.is_empty());
    }
}
