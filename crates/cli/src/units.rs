//! Numbers as a person reads them.

/// A time: `1.23 s`, `45.6 ms`, `12 us`, `0`.
pub fn time(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", three(seconds * 1e6)),
        1_000_000..1_000_000_000 => format!("{} ms", three(seconds * 1e3)),
        1_000_000_000..600_000_000_000 => format!("{} s", three(seconds)),
        600_000_000_000..36_000_000_000_000 => format!("{} min", three(seconds / 60.0)),
        _ => format!("{} h", three(seconds / 3600.0)),
    }
}

/// An amount of memory: `3.20 MiB`.
pub fn memory(bytes: u64) -> String {
    let kib = bytes as f64 / 1024.0;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", three(kib)),
        0x10_0000..0x4000_0000 => format!("{} MiB", three(kib / 1024.0)),
        _ => format!("{} GiB", three(kib / 1024.0 / 1024.0)),
    }
}

/// A part of a whole: `12.3 %`; nothing if there is no whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", share(part, whole) * 100.0) }
}

/// How far a number is from what it should be: `-0.6 %`.
pub fn difference(number: u64, expected: u64) -> String {
    if expected == 0 {
        return "nothing to compare with".to_owned();
    }
    format!("{:+.1} %", (number as f64 - expected as f64) / expected as f64 * 100.0)
}

/// A part of a whole, between 0 and 1; 0 if there is no whole.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A noun in the right number: `1 file`, `2 files`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Three digits that count, whatever the size.
fn three(number: f64) -> String {
    let decimals = match number {
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes() {
        for (ns, text) in [
            (0, "0"),
            (999, "999 ns"),
            (1_500, "1.50 us"),
            (45_600_000, "45.6 ms"),
            (999_000_000, "999 ms"),
            (1_230_000_000, "1.23 s"),
            (90_000_000_000, "90.0 s"),
            (720_000_000_000, "12.0 min"),
            (36_000_000_000_000, "10.0 h"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(memory(3_355_443), "3.20 MiB");
        assert_eq!(memory(17), "17 B");
        assert_eq!(percent(1, 8), "12.5 %");
        assert_eq!(percent(1, 0), "");
        assert_eq!(difference(99, 100), "-1.0 %");
        assert_eq!(count(1, "file"), "1 file");
    }
}
