//! The description that goes with a profile to Datadog: `event.json`, version 4.
//!
//! The fields are those that `libdd-profiling` sends (`exporter/mod.rs` of its release 1.0.0); a
//! test holds the two against each other.

use crate::json::{Object, quoted};
use crate::profile::Profile;
use crate::report::SelfReport;

/// The name of the attached profile.
pub const ATTACHMENT: &str = "profile.pprof";
/// The family of profilers: what its frames are of.
pub const FAMILY: &str = "dotnet";
/// The version of the description.
const VERSION: &str = "4";

/// `event.json` of a profile, with these tags.
#[must_use]
pub fn event(profile: &Profile, tags: &[(String, String)]) -> String {
    let start_ns = profile.period.start_unix_ns;
    let end_ns = start_ns.saturating_add(profile.period.duration_ns);
    Object::new()
        .raw("attachments", &format!("[{}]", quoted(ATTACHMENT)))
        .text("tags_profiler", &tags_text(tags))
        .text("start", &time_text(start_ns))
        .text("end", &time_text(end_ns))
        .text("family", FAMILY)
        .text("version", VERSION)
        .raw("endpoint_counts", &endpoint_counts(profile))
        .raw("internal", &internal(profile.report.as_ref()))
        .raw("info", &info(profile.report.as_ref()))
        .done()
}

/// `name:value,name:value`. A comma would begin another tag, so there is none in a value.
fn tags_text(tags: &[(String, String)]) -> String {
    let tags = tags.iter().map(|(name, value)| format!("{name}:{value}").replace(',', "_"));
    tags.collect::<Vec<_>>().join(",")
}

/// Requests by endpoint, or nothing at all.
fn endpoint_counts(profile: &Profile) -> String {
    if profile.endpoints.is_empty() {
        return "null".to_owned();
    }
    let counts = profile.endpoints.iter().fold(Object::new(), |object, endpoint| {
        object.number(profile.text(endpoint.name), endpoint.requests.min(i64::MAX as u64))
    });
    counts.done()
}

/// The profiler's own numbers.
fn internal(report: Option<&SelfReport>) -> String {
    let Some(report) = report else { return "{}".to_owned() };
    let facts = report.facts().into_iter().fold(Object::new(), |object, (key, value)| match value
        .parse::<u64>()
    {
        Ok(number) => object.number(&key, number),
        Err(_) => object.text(&key, &value),
    });
    Object::new().raw("corprof", &facts.done()).done()
}

/// What was profiled, and by what.
fn info(report: Option<&SelfReport>) -> String {
    let Some(report) = report else { return "{}".to_owned() };
    let (engine, version) =
        report.runtime_version.split_once(' ').unwrap_or((&report.runtime_version, ""));
    let application = Object::new().text("service", &report.service).done();
    let profiler =
        Object::new().text("name", "corprof").text("version", &report.agent_version).done();
    let runtime = Object::new().text("engine", engine).text("version", version).done();
    Object::new()
        .raw("application", &application)
        .raw("profiler", &profiler)
        .raw("runtime", &runtime)
        .done()
}

/// A time as `2026-11-30T08:15:00.000000000Z`.
fn time_text(unix_ns: u64) -> String {
    const DAY: u64 = 86_400;
    let (seconds, ns) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second % 3600 / 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z")
}

/// The date of a day, counted from 1970-01-01. The 64-bit nanoseconds end in 2554, so there is no
/// overflow in any of this.
#[allow(clippy::arithmetic_side_effects, reason = "all numbers are small, see above")]
fn date(days: u64) -> (u64, u64, u64) {
    // Years that begin in March, so that the day of the leap year is the last: eras of 400 years
    // have 146,097 days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        const SECOND: u64 = 1_000_000_000;
        for (seconds, ns, text) in [
            (0, 0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, 5, "2000-02-28T23:59:59.000000005Z"),
            (951_868_800, 0, "2000-03-01T00:00:00.000000000Z"),
            (951_782_400, 0, "2000-02-29T00:00:00.000000000Z"),
            (1_796_026_500, 123_456_789, "2026-11-30T08:15:00.123456789Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(time_text(seconds * SECOND + ns), text);
        }
        assert!(time_text(u64::MAX).starts_with("2554-"));
    }

    #[test]
    fn a_comma_begins_no_other_tag() {
        let tags = [("a".to_owned(), "b,c:d".to_owned()), ("e".to_owned(), "f".to_owned())];
        assert_eq!(tags_text(&tags), "a:b_c:d,e:f");
    }
}
