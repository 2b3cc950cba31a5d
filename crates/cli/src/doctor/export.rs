//! `corprof doctor --export`: whether each target takes a profile.

use anyhow::bail;
use config::Target;
use export::{Verdict, Why};
use profile::{Aggregate, Limits, Period, Profile, SampleKey, SelfReport, ThreadKey, Values};

use super::check::{Check, Level, Topic};
use crate::sending;

/// Sends a tiny profile to each target, which is how one knows.
pub fn checks() -> anyhow::Result<Vec<Check>> {
    let config = sending::config(&[])?;
    let mut checks = Vec::new();
    for target in config.export.remote_targets() {
        match sending::destination(target, &config, |name| std::env::var(name).ok()) {
            Err(why) => {
                let found = format!("{} can't be sent to", target.name());
                checks.push(Check::bad(Topic::Export, Level::Prevents, found, why.to_string()));
            }
            Ok(destination) => {
                let place = destination.address.to_string();
                let verdict = sending::send(&config, &destination, &tiny())?;
                checks.push(check(target, &place, &verdict));
            }
        }
    }
    if checks.is_empty() {
        bail!(
            "no target is named that profiles are sent to: set CORPROF_EXPORT to some of datadog, \
             pyroscope, otlp and corprof, or an address such as PYROSCOPE_SERVER_ADDRESS"
        );
    }
    Ok(checks)
}

/// What it comes to.
pub fn summary(checks: &[Check]) -> String {
    let good = checks.iter().filter(|check| check.level == Level::Fine).count();
    format!("{good} of {} targets take profiles", checks.len())
}

fn check(target: Target, place: &str, verdict: &Verdict) -> Check {
    let name = target.name();
    let why = match verdict {
        Verdict::Taken { .. } => {
            return Check::fine(Topic::Export, format!("{name} at {place} took a tiny profile"));
        }
        Verdict::Later { why, .. } | Verdict::Never(why) => why,
    };
    let found = format!("{name} at {place}: {why}");
    Check::bad(Topic::Export, Level::Prevents, found, remedy(target, why))
}

fn remedy(target: Target, why: &Why) -> String {
    if let Some(access) = sending::access(target, why) {
        return format!("{access}; docs/export.md has the variables");
    }
    let what = match why {
        Why::Fault(_) => {
            "see that something listens there and that the way is open (proxy, firewall, DNS); \
             docs/export.md has the variables of each target"
        }
        Why::Status { status: 404 | 405, .. } => {
            "set the address of the part that takes profiles, and see that profiles are switched \
             on there; docs/export.md says what each target needs"
        }
        Why::Status { status: 429 | 500..=599, .. } => {
            "the target has trouble of its own; the agent would try again later"
        }
        Why::Status { .. } => "see what the target's own log says; it may be of another version",
    };
    what.to_owned()
}

/// A profile of one sample of a nanosecond.
fn tiny() -> Profile {
    let mut aggregate = Aggregate::new(Limits::HOST);
    let frame = aggregate.synthetic_frame("[corprof doctor]");
    let stack = aggregate.stack([frame]);
    let key = SampleKey { stack, thread: ThreadKey::NONE, state: None, span: None, labels: 0 };
    let values = Values { count: 1, cpu_ns: 1, wall_ns: 1, gc_ns: 0 };
    let _kept = aggregate.add(&key, values);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ns = now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    let period = Period {
        start_unix_ns: now_ns.saturating_sub(1_000_000_000),
        duration_ns: 1_000_000_000,
        cpu_interval_ns: 10_000_000,
    };
    let mut profile = aggregate.take(period).profile;
    profile.report = Some(SelfReport {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        service: server::intake::PROBE.to_owned(),
        pid: u64::from(std::process::id()),
        ..SelfReport::default()
    });
    profile
}
