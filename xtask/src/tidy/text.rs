//! What holds for the text of every file: its width, its length, its blanks, its first line.

use super::source::Source;
use super::{Finding, finding};

const COLUMNS: usize = 100;
const LINES: usize = 600;
/// Whose lines can't be broken: generated text, and sources that are a table, one construct a row.
const WIDE: [&str; 2] = ["docs/configuration.md", "tests/apps/names/"];
/// Folders that exist on one machine only. In pieces, so that this file does not name them.
const MACHINE_FOLDERS: [&str; 3] =
    [concat!("/", "work/"), concat!("/", "home/"), concat!("/", "root/")];

/// Checks a file's text.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_data = source.path.contains("testdata/") || source.path.contains("golden/");
    for (number, line) in source.lines.iter().enumerate() {
        if MACHINE_FOLDERS.iter().any(|folder| names_folder(line, folder)) {
            findings.push(finding(
                source,
                number,
                "a path of one machine: derive it from the workspace or a variable",
            ));
        }
        if is_data {
            continue;
        }
        if line.ends_with([' ', '\t']) {
            findings.push(finding(source, number, "trailing blanks: remove them"));
        }
        let columns = line.chars().count();
        if has_columns(&source.path, line) && columns > COLUMNS {
            let what = format!("{columns} columns: break the line, {COLUMNS} are allowed");
            findings.push(finding(source, number, what));
        }
    }
    if source.path.ends_with(".rs") && !is_data {
        findings.extend(rust(source));
    }
    findings
}

fn rust(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let documented = source.lines.first().is_some_and(|line| line.starts_with("//! "));
    if !documented {
        let what = "no module doc: begin with a `//!` sentence that says the file's job";
        findings.push(finding(source, 0, what));
    }
    if source.tests_from > LINES {
        let what = format!(
            "{} lines without tests: split the file by nouns, {LINES} are allowed",
            source.tests_from
        );
        findings.push(finding(source, LINES, what));
    }
    findings
}

/// Tables and addresses in Markdown can't be broken, nor can licences.
fn has_columns(path: &str, line: &str) -> bool {
    if WIDE.iter().any(|wide| path.starts_with(wide)) {
        return false;
    }
    let extension = path.rsplit('.').next().unwrap_or_default();
    match extension {
        "md" => !line.starts_with('|') && !line.contains("://"),
        "rs" | "toml" | "cs" | "sh" => true,
        _ => false,
    }
}

/// Whether a line names an absolute path below a folder, and not one that only ends like it.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-/*}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_lines(path: &str, text: &str) -> Vec<String> {
        let found = check(&Source::new(path, text));
        found.iter().map(|finding| finding.to_string().chars().take(40).collect()).collect()
    }

    #[test]
    fn width_blanks_and_docs() {
        let long = "x".repeat(101);
        assert_eq!(check_lines("a.rs", "//! A.\nfn a() {}\n"), [""; 0]);
        assert_eq!(check_lines("a.rs", "fn a() {}"), ["a.rs:1: no module doc: begin with a `//!"]);
        assert_eq!(
            check_lines("a.rs", &format!("//! A.\n{long}")),
            ["a.rs:2: 101 columns: break the line, 100"]
        );
        assert_eq!(check_lines("a.md", &long).len(), 1);
        assert_eq!(check_lines("a.md", &format!("| {long}")), [""; 0]);
        assert_eq!(check_lines("LICENSE", &long), [""; 0]);
        assert_eq!(check_lines("a.toml", "a = 1 "), ["a.toml:1: trailing blanks: remove them"]);
        assert_eq!(check_lines("a/testdata/a.txt", "a "), [""; 0]);
        assert_eq!(check_lines("a.rs", &format!("//! {}", "ü".repeat(96))), [""; 0]);
    }

    #[test]
    fn length_counts_no_tests() {
        let body = "fn a() {}\n".repeat(599);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{body}}}\n");
        assert_eq!(check_lines("a.rs", &format!("//! A.\n{body}{tests}")), [""; 0]);
        let found = check_lines("a.rs", &format!("//! A.\n{body}fn b() {{}}\n{tests}"));
        assert_eq!(found, ["a.rs:601: 601 lines without tests: split"]);
    }

    #[test]
    fn machine_paths() {
        let [first, second, third] = MACHINE_FOLDERS;
        for text in [format!("\"{first}x\""), format!("see {second}y"), format!("={third}z")] {
            assert_eq!(check_lines("a.json", &text).len(), 1, "{text}");
        }
        for text in [format!("net{first}x"), format!("..{second}x"), format!("*{third}")] {
            assert_eq!(check_lines("a.json", &text), [""; 0], "{text}");
        }
    }
}
