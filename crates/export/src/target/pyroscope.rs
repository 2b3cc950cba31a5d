//! Pyroscope: a push request, to a server of one's own or to Grafana Cloud.

use std::io;

use config::{PyroscopeConfig, Secret, Target};
use profile::Profile;
use profile::pprof::{Dialect, write_for};
use profile::pyroscope::{label_name, push_request};

use crate::base64;
use crate::destination::{BadDestination, Destination, address, seq};
use crate::identity::{Identity, distinct};
use crate::parcel::Parcel;

const PATH: &str = "/push.v1.PusherService/Push";
const DEFAULT: &str = "http://localhost:4040";
/// What Pyroscope knows profiles of CPU time as; it makes one type of each value in them.
const NAME: &str = "process_cpu";
/// Labels of a series; servers refuse what has more, unless they are told otherwise.
const LABELS_MAX: usize = 30;

pub(crate) fn destination(config: &PyroscopeConfig) -> Result<Destination, BadDestination> {
    let url = if config.url.is_empty() { DEFAULT } else { config.url.reveal() };
    let address = address("CORPROF_PYROSCOPE_URL", url)?.join(PATH);
    let mut headers = Vec::new();
    if !config.token.is_empty() {
        headers.push(header("Authorization", format!("Bearer {}", config.token.reveal())));
    } else if !config.user.is_empty() || !config.password.is_empty() {
        let user = format!("{}:{}", config.user.reveal(), config.password.reveal());
        headers.push(header("Authorization", format!("Basic {}", base64::encode(user.as_bytes()))));
    }
    if !config.tenant.is_empty() {
        headers.push(header("X-Scope-OrgID", config.tenant.clone()));
    }
    let account = format!("{} {}", config.tenant, config.user.reveal());
    let secrets = vec![config.password.clone()];
    Ok(Destination { target: Target::Pyroscope, address, headers, account, secrets })
}

fn header(name: &str, value: String) -> (String, Secret) {
    (name.to_owned(), Secret::new(value))
}

pub(crate) fn parcel(profile: &Profile, identity: &Identity) -> io::Result<Parcel> {
    let pprof = write_for(Dialect::Pyroscope, profile, Vec::new())?;
    let id = format!("{}-{}", identity.uuid(), seq(profile));
    Ok(Parcel {
        target: Target::Pyroscope,
        start_unix_ns: profile.period.start_unix_ns,
        content_type: "application/proto".to_owned(),
        is_gzipped: false,
        body: push_request(&labels(identity), &pprof, &id).into(),
    })
}

/// Labels of the series, sorted as the servers want them.
fn labels(identity: &Identity) -> Vec<(String, String)> {
    let application =
        if identity.application.is_empty() { &identity.service } else { &identity.application };
    let own = [
        ("__name__", NAME.to_owned()),
        ("service_name", application.clone()),
        ("environment", identity.environment.clone()),
        ("version", identity.version.clone()),
        ("hostname", identity.host.clone()),
        ("pyroscope_spy", "corprof".to_owned()),
    ];
    let further: Vec<(String, String)> = (identity.pyroscope_labels.iter())
        .chain(&identity.tags)
        .map(|(name, value)| (label_name(name), value.clone()))
        .collect();
    let mut labels = distinct(own, &further);
    labels.truncate(LABELS_MAX);
    labels.sort();
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_is_in_the_headers() {
        let secret = |text: &str| Secret::new(text.to_owned());
        let config = PyroscopeConfig {
            url: secret("https://pyro/base/"),
            user: secret("1"),
            password: secret("pass"),
            tenant: "team".into(),
            ..PyroscopeConfig::default()
        };
        let found = destination(&config).expect("a destination");
        assert_eq!(found.address.to_string(), format!("https://pyro/base{PATH}"));
        let value = |name: &str| {
            let header = found.headers.iter().find(|(other, _)| other == name);
            header.map(|(_, value)| value.reveal().to_owned())
        };
        assert_eq!(value("Authorization"), Some("Basic MTpwYXNz".into()));
        assert_eq!(value("X-Scope-OrgID"), Some("team".into()));
        let other = destination(&PyroscopeConfig { tenant: "other".into(), ..config.clone() });
        assert_ne!(other.expect("a destination").lane(), found.lane());
        let token = destination(&PyroscopeConfig { token: secret("t"), ..config });
        assert!(token.expect("a destination").hidden().contains(&"t".to_owned()));
    }

    #[test]
    fn labels_are_sorted_and_have_names_that_fit() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let identity = Identity {
            service: "shop".into(),
            tags: vec![pair("k8s.pod", "a"), pair("service_name", "other")],
            pyroscope_labels: vec![pair("zone", "b")],
            ..Identity::default()
        };
        let expected = [
            pair("__name__", NAME),
            pair("k8s_pod", "a"),
            pair("pyroscope_spy", "corprof"),
            pair("service_name", "shop"),
            pair("zone", "b"),
        ];
        assert_eq!(labels(&identity), expected);
        let tags = (0..50).map(|n| pair(&format!("a{n}"), "b")).collect();
        let many = labels(&Identity { tags, ..identity });
        assert_eq!(many.len(), LABELS_MAX);
        assert!(many.contains(&pair("service_name", "shop")), "the tags over it go, not our own");
    }
}
