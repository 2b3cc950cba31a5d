//! OpenTelemetry's profiles, `v1development`: the message `ProfilesData`, as protobuf. A request of
//! OTLP, `ExportProfilesServiceRequest`, has the same fields, so the file can be sent as it is.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use profile::otlp::{Sender, request};

use crate::loaded::Loaded;

/// The message, not compressed.
pub fn bytes(loaded: &Loaded) -> Vec<u8> {
    let mut resource = vec![
        ("telemetry.distro.name".to_owned(), "corprof".to_owned()),
        ("telemetry.distro.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let name = loaded.name();
    if !name.is_empty() {
        resource.insert(0, ("service.name".to_owned(), name));
    }
    let pid = match loaded.pids()[..] {
        [pid] => pid,
        _ => 0,
    };
    let version = env!("CARGO_PKG_VERSION");
    request(&loaded.profile, Sender { resource: &resource, pid, version, id: id(loaded) })
}

/// The same for the same profiles, and hardly for any others: their times and what they add up to.
fn id(loaded: &Loaded) -> u128 {
    let profile = &loaded.profile;
    let mut hasher = DefaultHasher::new();
    let total = profile.total();
    (loaded.name(), loaded.pids(), profile.period.duration_ns).hash(&mut hasher);
    (total.cpu_ns, total.wall_ns, total.count, total.gc_ns).hash(&mut hasher);
    // The last two bits tell the types of values apart.
    u128::from(profile.period.start_unix_ns) << 64 | u128::from(hasher.finish() << 2)
}
