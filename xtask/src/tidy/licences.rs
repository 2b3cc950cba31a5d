//! The licences of what is built in: permissive ones, and a few more in tests.

use serde_json::Value;

use super::edges::in_lock_file;
use super::source::Sources;
use super::{Finding, finding};
use crate::workspace::Metadata;

/// Licences that anything may have.
const PERMISSIVE: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// Licences that only tests and tools may have, since they are not shipped.
const IN_TESTS: [&str; 2] = ["CDDL-1.0", "MPL-2.0"];
/// What npm installs.
const NPM_LOCK: &str = "ui/package-lock.json";
/// What is shipped.
const SHIPPED: [&str; 2] = ["agent", "cli"];

/// Checks the licences of all packages.
pub fn check(metadata: &Metadata, sources: &Sources) -> Vec<Finding> {
    let shipped = metadata.built_into(&SHIPPED);
    let mut findings = Vec::new();
    for (index, package) in metadata.packages.iter().enumerate() {
        let expression = package.license.as_deref().unwrap_or_default();
        let is_shipped = shipped.contains(&index);
        let allowed = |licence: &str| {
            PERMISSIVE.contains(&licence) || (!is_shipped && IN_TESTS.contains(&licence))
        };
        if satisfied(expression, &allowed) == Some(true) {
            continue;
        }
        let kind = if is_shipped { "what is shipped" } else { "tests" };
        let what = format!(
            "`{}` has the licence `{expression}`, which the list for {kind} in \
             xtask/src/tidy/licences.rs does not allow: use another package",
            package.name
        );
        findings.push(in_lock_file(sources, package, what));
    }
    findings
}

/// Checks the packages from npm: they build the pages in `ui`, and nothing of them is in one.
pub fn check_npm(sources: &Sources) -> Vec<Finding> {
    let Some(source) = sources.get(NPM_LOCK) else { return Vec::new() };
    let Ok(lock) = serde_json::from_str::<Value>(&source.lines.join("\n")) else {
        return vec![finding(source, 0, "not JSON: make it anew with npm")];
    };
    let packages = lock["packages"].as_object().into_iter().flatten();
    let mut findings = Vec::new();
    for (name, package) in packages.filter(|(name, _)| !name.is_empty()) {
        let licence = package["license"].as_str().unwrap_or_default();
        let allowed = |licence: &str| PERMISSIVE.contains(&licence) || IN_TESTS.contains(&licence);
        let line = source.lines.iter().position(|line| line.contains(&format!("\"{name}\"")));
        if package["dev"] != true {
            let what = format!(
                "`{name}` would be a part of a page, and shipped: pages have no packages from \
                 outside, see docs/design/0008"
            );
            findings.push(finding(source, line.unwrap_or(0), what));
        } else if satisfied(licence, &allowed) != Some(true) {
            let what = format!(
                "`{name}` has the licence `{licence}`, which the list for tests in \
                 xtask/src/tidy/licences.rs does not allow: use another package"
            );
            findings.push(finding(source, line.unwrap_or(0), what));
        }
    }
    findings
}

/// Whether a licence expression can be met by allowed licences; `None` if it is not understood.
fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    // The slash is what cargo used before it took SPDX expressions.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (value, rest) = either(&words, allowed)?;
    rest.is_empty().then_some(value)
}

type Parsed<'a, 'b> = Option<(bool, &'a [&'b str])>;

fn either<'a, 'b>(words: &'a [&'b str], allowed: &dyn Fn(&str) -> bool) -> Parsed<'a, 'b> {
    let (mut value, mut rest) = both(words, allowed)?;
    while let Some((&"OR", after)) = rest.split_first() {
        let (other, after) = both(after, allowed)?;
        value |= other;
        rest = after;
    }
    Some((value, rest))
}

fn both<'a, 'b>(words: &'a [&'b str], allowed: &dyn Fn(&str) -> bool) -> Parsed<'a, 'b> {
    let (mut value, mut rest) = one(words, allowed)?;
    while let Some((&"AND", after)) = rest.split_first() {
        let (other, after) = one(after, allowed)?;
        value &= other;
        rest = after;
    }
    Some((value, rest))
}

fn one<'a, 'b>(words: &'a [&'b str], allowed: &dyn Fn(&str) -> bool) -> Parsed<'a, 'b> {
    match words {
        ["(", rest @ ..] => {
            let (value, rest) = either(rest, allowed)?;
            rest.strip_prefix(&[")"]).map(|rest| (value, rest))
        }
        ["AND" | "OR" | "WITH" | ")", ..] | [] => None,
        [licence, "WITH", exception, rest @ ..] => {
            Some((allowed(&format!("{licence} WITH {exception}")), rest))
        }
        [licence, rest @ ..] => Some((allowed(licence), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;
    use crate::workspace::{Package, Resolved};

    #[test]
    fn expressions_are_understood() {
        let check = |expression: &str, expected: Option<bool>| {
            let allowed = |licence: &str| PERMISSIVE.contains(&licence);
            assert_eq!(satisfied(expression, &allowed), expected, "{expression}");
        };
        check("MIT", Some(true));
        check("MIT/Apache-2.0", Some(true));
        check("GPL-3.0-only", Some(false));
        check("MIT OR GPL-3.0-only", Some(true));
        check("MIT AND GPL-3.0-only", Some(false));
        check("(MIT OR Apache-2.0) AND Unicode-3.0", Some(true));
        check("GPL-2.0-only OR (MIT AND LGPL-2.1-or-later)", Some(false));
        check("Apache-2.0 WITH LLVM-exception OR GPL-3.0-only", Some(true));
        check("GPL-2.0-only WITH Classpath-exception-2.0", Some(false));
        check("MIT OR LGPL-2.1-or-later AND GPL-3.0-only", Some(true));
        check("", None);
        check("MIT OR", None);
        check("(MIT", None);
        check("MIT MIT", None);
    }

    #[test]
    fn what_is_shipped_is_held_to_more() {
        let mpl =
            Package { name: "weak".into(), license: Some("MPL-2.0".into()), ..Package::default() };
        let with = |is_dev: bool| {
            let agent = Package {
                name: "agent".into(),
                license: Some("MIT".into()),
                resolved: vec![Resolved { package: 1, is_dev, is_build: false }],
                ..Package::default()
            };
            let weak = Package {
                license: mpl.license.clone(),
                name: mpl.name.clone(),
                ..Package::default()
            };
            let metadata = Metadata { packages: vec![agent, weak], ..Metadata::default() };
            check(&metadata, &Sources { files: vec![] })
        };
        assert_eq!(with(true), []);
        assert_eq!(with(false).len(), 1);
    }
    #[test]
    fn packages_from_npm_are_tools_with_a_known_licence() {
        let found = |package: &str| {
            let lock = format!("{{\"packages\": {{\"\": {{}},\n\"node_modules/a\": {package}}}}}");
            let lock = Source::new(NPM_LOCK, &lock);
            let found = check_npm(&Sources { files: vec![lock] });
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(r#"{"dev": true, "license": "MIT"}"#), [""; 0]);
        let shipped = found(r#"{"license": "MIT"}"#);
        assert!(shipped[0].starts_with("ui/package-lock.json:2: `node_modules/a` would be"));
        assert_eq!(found(r#"{"dev": true, "license": "GPL-3.0-only"}"#).len(), 1);
        assert_eq!(found(r#"{"dev": true}"#).len(), 1);
    }
}
