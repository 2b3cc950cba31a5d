//! `ARCHITECTURE.md` names every crate, and stays short enough to be read.

use super::Finding;
use super::source::Sources;
use crate::workspace::Metadata;

const FILE: &str = "ARCHITECTURE.md";
const LINES: usize = 400;

/// Checks the document.
pub fn check(metadata: &Metadata, sources: &Sources) -> Vec<Finding> {
    let at = |line: usize, what: String| Finding { file: FILE.to_owned(), line, what };
    let Some(document) = sources.get(FILE) else {
        return vec![at(1, "there is none: write it".to_owned())];
    };
    let mut findings = Vec::new();
    for package in metadata.members() {
        // The folder, as `crates/model`: a bare word may mean anything.
        let folder = package.manifest.strip_suffix("/Cargo.toml").unwrap_or(&package.manifest);
        let named = |line: &String| {
            line.split(|c: char| !c.is_alphanumeric() && !"/_-".contains(c)).any(|w| w == folder)
        };
        if !document.lines.iter().any(named) {
            let what =
                format!("`{folder}` is not named: say what it does and what is absent in it");
            findings.push(at(1, what));
        }
    }
    let length = document.lines.len();
    if length > LINES {
        let what =
            format!("{length} lines: move details to where they belong, {LINES} are allowed");
        findings.push(at(LINES + 1, what));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;
    use crate::workspace::Package;

    fn found(text: Option<&str>) -> usize {
        let package = Package {
            name: "model".into(),
            manifest: "crates/model/Cargo.toml".into(),
            is_member: true,
            ..Package::default()
        };
        let metadata = Metadata { packages: vec![package], ..Metadata::default() };
        let files = text.map(|text| Source::new(FILE, text)).into_iter().collect();
        check(&metadata, &Sources { files }).len()
    }

    #[test]
    fn crates_are_named_in_a_short_document() {
        assert_eq!(found(Some("### `crates/model`\n")), 0);
        assert_eq!(found(Some("the model\n")), 1);
        assert_eq!(found(Some("crates/models\n")), 1);
        assert_eq!(found(Some(&format!("crates/model\n{}", "x\n".repeat(400)))), 1);
        assert_eq!(found(None), 1);
    }
}
