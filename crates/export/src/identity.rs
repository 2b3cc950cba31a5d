//! Who sends: the process, as each target calls it.

use config::{Config, tags};
use profile::{Profile, SelfReport};

use crate::parcel::checksum;

/// What is said of the process in everything that is sent.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The service's name.
    pub service: String,
    /// Its environment, may be empty.
    pub environment: String,
    /// Its version, may be empty.
    pub version: String,
    /// The host's name, may be empty.
    pub host: String,
    /// What tells this process from all others: 16 random bytes.
    pub id: [u8; 16],
    /// The process's number.
    pub pid: u64,
    /// Such as `CoreCLR 9.0.5`.
    pub runtime_version: String,
    /// The profiler's version.
    pub agent_version: String,
    /// Tags for all targets.
    pub tags: Vec<(String, String)>,
    /// Tags for Datadog.
    pub datadog_tags: Vec<(String, String)>,
    /// The service's name for Pyroscope, may be empty.
    pub application: String,
    /// Labels for Pyroscope.
    pub pyroscope_labels: Vec<(String, String)>,
    /// Attributes for OpenTelemetry.
    pub attributes: Vec<(String, String)>,
}

impl Identity {
    /// Of this process, with its settings.
    #[must_use]
    pub fn new(config: &Config, runtime_version: &str, id: [u8; 16]) -> Self {
        let export = &config.export;
        let attributes = tags::attributes(&export.otlp.attributes);
        let or_attribute = |text: &str, keys: &[&str]| {
            let found = attributes.iter().find(|(key, _)| keys.contains(&key.as_str()));
            let found = found.map(|(_, value)| value.clone()).unwrap_or_default();
            if text.is_empty() { found } else { text.to_owned() }
        };
        Self {
            service: config.service.clone(),
            environment: or_attribute(
                &export.environment,
                &["deployment.environment.name", "deployment.environment"],
            ),
            version: config.service_version(),
            host: host_name(),
            id,
            pid: u64::from(std::process::id()),
            runtime_version: runtime_version.to_owned(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            tags: tags::tags(&export.tags),
            datadog_tags: tags::tags(&export.datadog.tags),
            application: export.pyroscope.application.clone(),
            pyroscope_labels: tags::tags(&export.pyroscope.labels),
            attributes,
        }
    }

    /// Of the process that a profile is of, as far as the profile says.
    #[must_use]
    pub fn of_profile(mut self, profile: &Profile, has_service: bool) -> Self {
        if let Some(report) = &profile.report {
            if !has_service {
                self.service.clone_from(&report.service);
            }
            // As the service's name: what is set here counts more than what was set there.
            if self.version.is_empty() {
                self.version.clone_from(&report.service_version);
            }
            self.pid = report.pid;
            self.id = process_id(report);
            self.runtime_version.clone_from(&report.runtime_version);
            self.agent_version.clone_from(&report.agent_version);
        }
        self
    }

    /// The id as a UUID, of the kind that is random.
    #[must_use]
    pub fn uuid(&self) -> String {
        let version = 0x4000 | (u128::from_be_bytes(self.id) >> 64 & 0x0fff);
        let bits = u128::from_be_bytes(self.id);
        let variant = 0x8000 | (bits >> 48 & 0x3fff);
        let (first, second, last) = (bits >> 96, bits >> 80 & 0xffff, bits & 0xffff_ffff_ffff);
        format!("{first:08x}-{second:04x}-{version:04x}-{variant:04x}-{last:012x}")
    }
}

/// What tells the process of a report from all others, so that all its files are of one instance.
/// Files of before there was an id have the service and the number alone.
fn process_id(report: &SelfReport) -> [u8; 16] {
    let told = Some(report.instance.as_str()).filter(|text| text.len() == 32);
    let told = told.and_then(|text| u128::from_str_radix(text, 16).ok());
    let half = |salt: &str| {
        let text = format!("{salt} {} {}", report.pid, report.service);
        u128::from(checksum(text.as_bytes()))
    };
    told.unwrap_or_else(|| (half("first") << 64) | half("second")).to_be_bytes()
}

/// An id of a process as reports have it.
#[must_use]
pub fn id_text(id: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(id))
}

/// The first value of each name, without empty ones.
#[must_use]
pub fn distinct<'a>(
    pairs: impl IntoIterator<Item = (&'a str, String)>,
    further: impl IntoIterator<Item = &'a (String, String)>,
) -> Vec<(String, String)> {
    let own = pairs.into_iter().map(|(name, value)| (name.to_owned(), value));
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in own.chain(further.into_iter().cloned()) {
        if !value.is_empty() && !found.iter().any(|(other, _)| *other == name) {
            found.push((name, value));
        }
    }
    found
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// 16 random bytes.
#[must_use]
pub fn random_id() -> [u8; 16] {
    use std::io::Read as _;
    let mut id = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut id));
    if read.is_err() {
        // Then something that hardly anybody else has.
        let now = u128::from(sys::clock::wall_clock_ns());
        let mixed = now.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        id = (mixed ^ u128::from(std::process::id())).to_be_bytes();
    }
    id
}

#[cfg(test)]
mod tests {
    use profile::{Aggregate, Limits, Period};

    use super::*;

    #[test]
    fn ids_are_uuids_and_random() {
        let identity = Identity { id: random_id(), ..Identity::default() };
        let uuid = identity.uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        assert_ne!(random_id(), random_id());
    }

    #[test]
    fn all_files_of_a_process_are_of_one_instance() {
        let of = |report: SelfReport| {
            let mut profile = Aggregate::new(Limits::HOST).take(Period::default()).profile;
            profile.report = Some(report);
            let identity = Identity { id: random_id(), ..Identity::default() };
            identity.of_profile(&profile, false).id
        };
        let id = random_id();
        let told = SelfReport { pid: 1, instance: id_text(id), ..SelfReport::default() };
        assert_eq!(of(told.clone()), id);
        assert_eq!(of(SelfReport { seq: 1, ..told }), id);
        let old = |pid, service: &str, instance: &str| {
            let (service, instance) = (service.to_owned(), instance.to_owned());
            of(SelfReport { pid, service, instance, ..SelfReport::default() })
        };
        let one = old(7, "shop", "");
        assert_eq!(one, old(7, "shop", "no number"));
        assert!(one != old(8, "shop", "") && one != old(7, "other", ""));
    }

    #[test]
    fn a_files_version_counts_where_none_is_set() {
        let mut profile = Aggregate::new(Limits::HOST).take(Period::default()).profile;
        profile.report =
            Some(SelfReport { service_version: "1.0".into(), ..SelfReport::default() });
        let of = |version: &str| {
            let version = version.to_owned();
            Identity { version, ..Identity::default() }.of_profile(&profile, false).version
        };
        assert_eq!((of("").as_str(), of("2.0").as_str()), ("1.0", "2.0"));
    }

    #[test]
    fn the_first_of_a_name_counts() {
        let further = [("a".to_owned(), "2".to_owned()), ("b".to_owned(), "3".to_owned())];
        let found = distinct([("a", "1".to_owned()), ("c", String::new())], &further);
        assert_eq!(found, [("a".into(), "1".into()), ("b".into(), "3".into())]);
    }

    #[test]
    fn attributes_say_what_nothing_else_does() {
        let vars = [
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.version=7"),
            ("DD_VERSION", "8"),
        ];
        let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (config, _) = Config::from_vars(vars, "app");
        let identity = Identity::new(&config, "CoreCLR 9", [0; 16]);
        assert_eq!((identity.environment.as_str(), identity.version.as_str()), ("test", "8"));
    }
}
