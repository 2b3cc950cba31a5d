//! Durations as a person writes them: `10ms`, `1.5s`, `250us`; a bare number is milliseconds.

use std::time::Duration;

/// Units from the longest; the first that divides a duration is the one it is shown in.
const UNITS: [(&str, u128); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads a duration; `None` if it isn't one.
#[must_use]
pub fn duration_from_text(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(unit_at)?;
    let unit = match unit.trim() {
        "" => "ms",
        "µs" | "μs" => "us",
        "min" => "m",
        unit => unit,
    };
    let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    // Eighteen digits of a fraction of an hour still fit; more would be below a nanosecond.
    let fraction = fraction.get(..fraction.len().min(18))?;
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let whole_ns = whole.parse::<u128>().ok()?.checked_mul(*unit_ns)?;
    let ns = whole_ns.checked_add(part.checked_mul(*unit_ns)? / scale)?;
    Some(Duration::from_nanos(u64::try_from(ns).ok()?))
}

/// The shortest exact text of a duration: `10ms`, `1s`, `90s`.
#[must_use]
pub fn duration_to_text(duration: Duration) -> String {
    let ns = duration.as_nanos();
    // 60s is what people write, not 1m; so minutes only from two on.
    let fits = |(name, unit): &&(&str, u128)| {
        ns.is_multiple_of(*unit) && ns >= *unit && (*name != "m" || ns > *unit)
    };
    match UNITS.iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", ns / unit),
        None => "0s".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, ns) in [
            ("10ms", 10_000_000),
            ("10", 10_000_000),
            (" 10 ms ", 10_000_000),
            ("1s", 1_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0.0000000000000000001s", 0),
            ("250us", 250_000),
            ("250µs", 250_000),
            ("7ns", 7),
            ("2m", 120_000_000_000),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(duration_from_text(text), Some(Duration::from_nanos(ns)), "{text:?}");
        }
    }

    #[test]
    fn nonsense_is_not_a_duration() {
        for text in [
            "", "ms", "abc", "-1s", "+1s", "1.s", ".5s", "1..2s", "1s2", "1 d", "١s", "1e3ms",
            "inf",
        ] {
            assert_eq!(duration_from_text(text), None, "{text:?}");
        }
        assert_eq!(duration_from_text(&"9".repeat(30)), None);
        assert_eq!(
            duration_from_text(&format!("1.{}h", "9".repeat(99))).map(|d| d.as_secs()),
            Some(7199)
        );
    }

    #[test]
    fn a_duration_survives_its_text() {
        for ns in [0, 1, 999, 1_000, 250_000, 1_500_000, 60_000_000_000, 120_000_000_000, u64::MAX]
        {
            let duration = Duration::from_nanos(ns);
            let text = duration_to_text(duration);
            assert_eq!(duration_from_text(&text), Some(duration), "{text}");
        }
        assert_eq!(duration_to_text(Duration::from_secs(60)), "60s");
        assert_eq!(duration_to_text(Duration::from_secs(3600)), "1h");
    }
}
