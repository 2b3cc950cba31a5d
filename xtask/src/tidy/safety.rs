//! The `signal` crate says of each public function whether a handler may call it.

use super::source::{Source, Sources};
use super::{Finding, finding};
use crate::closure::HANDLERS;

const SECTION: &str = "# Signal safety";
/// Functions of normal threads, as `file::function`: they set up, publish or read.
const NOT_FOR_HANDLERS: [&str; 28] = [
    "context::has_span",
    "context::record",
    "context::reset",
    "context::sequence",
    "frames::gap",
    "frames::iter",
    "gate::inside",
    "gate::new",
    "gate::open",
    "gate::shut",
    "handler::forget_record_of",
    "handler::new",
    "handler::set_record_of",
    "handler::set_shared",
    "record::close",
    "record::cpu_seen_ns",
    "record::has_room",
    "record::open",
    "record::set_timer",
    "record::tid",
    "record::to_value",
    "record::want_room",
    "ring::bytes_touched",
    "ring::fill",
    "ring::new",
    "ring::read",
    "ring::read_if",
    "sample::read",
];

/// Checks a file of the `signal` crate.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, name) in public_functions(source) {
        let full = format!("{}::{name}", source.stem());
        let documented = has_section(source, number);
        let listed = NOT_FOR_HANDLERS.contains(&full.as_str());
        let what = match (documented, listed) {
            (false, false) => format!(
                "`{name}` does not say whether a handler may call it: add `{SECTION}` to its doc, \
                 or list `{full}` in xtask/src/tidy/safety.rs"
            ),
            (true, true) => format!(
                "`{name}` has `{SECTION}` and is listed as not for handlers: keep one of the two"
            ),
            _ => continue,
        };
        findings.push(finding(source, number, what));
    }
    for (number, line) in of_signal(source) {
        let Some(name) = function_name(line).filter(|_| line.contains("fn ")) else { continue };
        let raw = source.lines.get(number).map_or("", String::as_str);
        let followed = HANDLERS.iter().any(|h| h.rsplit("::").next() == Some(name));
        if raw.contains("extern \"C\" fn") && !followed {
            let what = format!(
                "`{name}` can be a handler and is not followed: add it to the handlers in \
                 xtask/src/closure/rules.rs"
            );
            findings.push(finding(source, number, what));
        }
    }
    findings
}

/// The list must not outlive the functions.
pub fn check_list(sources: &Sources) -> Vec<Finding> {
    let own = "xtask/src/tidy/safety.rs";
    let known: Vec<String> = sources
        .files
        .iter()
        .flat_map(|s| public_functions(s).map(|(_, name)| format!("{}::{name}", s.stem())))
        .collect();
    let gone = NOT_FOR_HANDLERS.iter().filter(|listed| !known.iter().any(|name| name == *listed));
    let line = |listed: &str| {
        let lines = sources.get(own).map(|source| &source.lines);
        lines.and_then(|lines| lines.iter().position(|line| line.contains(listed))).unwrap_or(0) + 1
    };
    gone.map(|listed| Finding {
        file: own.to_owned(),
        line: line(listed),
        what: format!("`{listed}` is no public function of `signal`: take it off the list"),
    })
    .collect()
}

/// The product code of a file, if it is one of the `signal` crate.
fn of_signal(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let is_signal = source.path.starts_with("crates/signal/src/");
    source.product().filter(move |_| is_signal)
}

fn public_functions(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    of_signal(source).filter_map(|(number, line)| {
        let public = line.trim_start().strip_prefix("pub ")?;
        function_name(public).map(|name| (number, name))
    })
}

/// The name in `const unsafe extern "C" fn name<…>(`.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let qualified =
        before.split_whitespace().all(|word| ["pub", "const", "unsafe", "extern"].contains(&word));
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (qualified && end > 0).then(|| &rest[..end])
}

/// Whether the comment and the attributes above a line have the section.
fn has_section(source: &Source, number: usize) -> bool {
    let above = source.lines.iter().take(number).rev().map(|line| line.trim());
    let mut doc = above.take_while(|line| {
        line.starts_with("//") || !(line.is_empty() || line.ends_with(['{', '}', ';']))
    });
    doc.any(|line| line.starts_with("///") && line.contains(SECTION))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let source = Source::new("crates/signal/src/gate.rs", text);
        check(&source).iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn public_functions_say_who_may_call_them() {
        let silent = found("//! G.\n/// Does.\npub fn does() {}\nfn private() {}");
        assert_eq!(silent.len(), 1);
        assert!(silent[0].starts_with("3: `does` does not say"), "{silent:?}");
        let said = "/// Does; it works {\n///\n/// # Signal safety\n/// Yes.\n#[must_use]\n\
                    pub const unsafe fn does() {}";
        assert_eq!(found(said), [""; 0]);
        let other = "/// # Signal safety\npub fn one() {}\n\npub fn two() {}";
        assert!(found("fn x() {}\n").is_empty());
        assert_eq!(found(other).len(), 1);
        assert_eq!(found("pub fn open(&self) {}"), [""; 0]);
        let both = found("/// # Signal safety\npub fn open(&self) {}");
        assert!(both[0].contains("keep one"), "{both:?}");
    }

    #[test]
    fn handlers_are_followed() {
        let unknown = found("unsafe extern \"C\" fn on_other(signal: i32) {}");
        assert!(unknown[0].contains("is not followed"), "{unknown:?}");
        assert_eq!(found("unsafe extern \"C\" fn on_signal(signal: i32) {}"), [""; 0]);
        let sources = Sources { files: vec![] };
        assert_eq!(check_list(&sources).len(), NOT_FOR_HANDLERS.len());
    }
}
