//! OpenTelemetry's collector: OTLP profiles over HTTP, as protobuf.

use std::io::{self, Write as _};

use config::{OtlpConfig, Secret, Target, tags};
use flate2::Compression;
use flate2::write::GzEncoder;
use profile::Profile;
use profile::otlp::{Sender, request};

use crate::destination::{BadDestination, Destination, address, seq};
use crate::identity::{Identity, distinct};
use crate::parcel::Parcel;

/// The version of the signal is in its path.
const PATH: &str = "/v1development/profiles";
const DEFAULT: &str = "http://localhost:4318";

pub(crate) fn destination(config: &OtlpConfig) -> Result<Destination, BadDestination> {
    let address = if config.profiles_endpoint.is_empty() {
        let base = if config.endpoint.is_empty() { DEFAULT } else { config.endpoint.reveal() };
        address("CORPROF_OTLP_ENDPOINT", base)?.join(PATH)
    } else {
        address("CORPROF_OTLP_PROFILES_ENDPOINT", config.profiles_endpoint.reveal())?
    };
    let headers = tags::attributes(config.headers.reveal()).into_iter();
    let headers = headers.map(|(name, value)| (name, Secret::new(value))).collect();
    let (account, secrets) = (String::new(), Vec::new());
    Ok(Destination { target: Target::Otlp, address, headers, account, secrets })
}

pub(crate) fn parcel(profile: &Profile, identity: &Identity) -> io::Result<Parcel> {
    let sender = Sender {
        resource: &resource(identity),
        pid: identity.pid,
        version: &identity.agent_version,
        // Four profiles have ids of their own.
        id: u128::from_be_bytes(identity.id).wrapping_add(u128::from(seq(profile)) << 2),
    };
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&request(profile, sender))?;
    Ok(Parcel {
        target: Target::Otlp,
        start_unix_ns: profile.period.start_unix_ns,
        content_type: "application/x-protobuf".to_owned(),
        is_gzipped: true,
        body: gzip.finish()?.into(),
    })
}

/// The attributes of the process, as OpenTelemetry's conventions name them.
fn resource(identity: &Identity) -> Vec<(String, String)> {
    let (name, version) =
        identity.runtime_version.split_once(' ').unwrap_or((&identity.runtime_version, ""));
    let own = [
        ("service.name", identity.service.clone()),
        ("service.version", identity.version.clone()),
        ("service.instance.id", identity.uuid()),
        ("deployment.environment.name", identity.environment.clone()),
        ("host.name", identity.host.clone()),
        ("process.runtime.name", name.to_owned()),
        ("process.runtime.version", version.to_owned()),
        ("telemetry.distro.name", "corprof".to_owned()),
        ("telemetry.distro.version", identity.agent_version.clone()),
    ];
    distinct(own, identity.attributes.iter().chain(&identity.tags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_added_to_the_base_only() {
        let secret = |text: &str| Secret::new(text.to_owned());
        let config = OtlpConfig { headers: secret("a=b%20c,api-key=x"), ..OtlpConfig::default() };
        let found = destination(&config).expect("a destination");
        assert_eq!(found.address.to_string(), format!("http://localhost:4318{PATH}"));
        let headers: Vec<_> = found
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.reveal()))
            .collect();
        assert_eq!(headers, ["a: b c", "api-key: x"]);
        let config = OtlpConfig { profiles_endpoint: secret("http://otel/own"), ..config };
        let found = destination(&config).expect("a destination");
        assert_eq!(found.address.to_string(), "http://otel/own");
    }
}
