//! The documents say what the program does: reasons for losses and for the ends of walks.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use model::{EndReason, Loss};

/// The section of a document below that heading.
fn section(document: &str, heading: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs").join(document)).unwrap();
    let (_, rest) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap().to_owned()
}

/// What stands in backquotes in the first column of a section's table.
fn first_column(section: &str) -> Vec<String> {
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `"));
    cells.map(|line| line.split('`').next().unwrap().to_owned()).collect()
}

#[test]
fn each_loss_is_explained_and_nothing_else() {
    let names: Vec<_> = Loss::ALL.iter().map(|loss| loss.name().to_owned()).collect();
    assert_eq!(first_column(&section("troubleshooting.md", "Lost samples")), names);
}

#[test]
fn each_end_of_a_walk_is_explained_and_nothing_else() {
    let names: Vec<_> = EndReason::ALL.iter().map(|end| end.frame().to_owned()).collect();
    assert_eq!(first_column(&section("troubleshooting.md", "Stacks that are cut off")), names);
}

#[test]
fn limits_that_are_told_are_the_limits() {
    let losses = section("troubleshooting.md", "Lost samples");
    let ends = section("troubleshooting.md", "Stacks that are cut off");
    let none = section("troubleshooting.md", "No profile appeared");
    for (text, number, words) in [
        (&losses, model::limits::THREADS_MAX, "more than 65,536 threads"),
        (&losses, model::limits::STACKS_MAX, "more than 200,000 different stacks"),
        (&losses, model::limits::SPANS_MAX, "more than 100,000 different spans"),
        (&losses, model::limits::LABEL_SETS_MAX, "more than 10,000 sets of labels"),
        (&ends, model::limits::FRAMES_MAX, "more than 512 frames"),
        (&none, model::limits::UNWRITTEN_PROFILES_MAX, "up to 8 profiles"),
    ] {
        assert!(text.contains(words), "{words}");
        assert!(words.replace(',', "").contains(&format!(" {number} ")), "{words}: {number}");
    }
}

#[test]
fn exit_codes_have_the_same_words_in_the_page_and_in_the_help() {
    let help = Command::new(env!("CARGO_BIN_EXE_corprof")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let page = section("cli.md", "Exit codes");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    for code in ["0", "1", "2"] {
        let (_, row) = rows.clone().find(|(number, _)| *number == code).unwrap();
        let words = row.split(" | ").next().unwrap();
        assert!(help.contains(&format!("{code}    {words}")), "{words:?} is not in\n{help}");
    }
}
