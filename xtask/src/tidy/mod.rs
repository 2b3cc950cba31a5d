//! `cargo xtask tidy`: the rules of this repository that neither the compiler nor clippy knows.
//! `cargo test` runs them too.

mod architecture;
mod edges;
mod licences;
mod safety;
mod source;
mod text;
mod words;

use std::fmt;

use anyhow::{Context, Result, bail};

use crate::workspace;
use source::{Source, Sources};

/// One thing to mend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the repository's root.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// Runs the task.
pub fn run(arguments: &[String]) -> Result<()> {
    if !arguments.is_empty() {
        bail!("usage: cargo xtask tidy");
    }
    let (sources, findings) = check()?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} finding(s)", findings.len());
    }
    println!("{} files are tidy", sources.files.len());
    Ok(())
}

/// Checks the repository.
fn check() -> Result<(Sources, Vec<Finding>)> {
    let metadata = workspace::metadata()?;
    let sources = Sources::read(workspace::root()).context("the repository's files")?;
    let host = edges::host_crates(&metadata);
    let mut findings = Vec::new();
    for source in &sources.files {
        findings.extend(text::check(source));
        findings.extend(words::check(source, &host));
        findings.extend(safety::check(source));
    }
    findings.extend(safety::check_list(&sources));
    findings.extend(edges::check(&metadata, &sources));
    findings.extend(licences::check(&metadata, &sources));
    findings.extend(licences::check_npm(&sources));
    findings.extend(architecture::check(&metadata, &sources));
    findings.sort();
    findings.dedup();
    Ok((sources, findings))
}

/// Makes a finding in a source file; lines count from 0 here.
fn finding(source: &Source, line: usize, what: impl Into<String>) -> Finding {
    Finding { file: source.path.clone(), line: line + 1, what: what.into() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn repository_is_tidy() {
        let (sources, findings) = super::check().expect("checked");
        assert!(sources.files.len() > 50, "only {} files were read", sources.files.len());
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
