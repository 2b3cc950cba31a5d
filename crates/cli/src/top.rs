//! `corprof top`: tables from profile files.

use std::collections::BTreeSet;
use std::io::Write as _;

use profile::Profile;
use serde_json::Value;

use crate::args::{By, TopArgs};
use crate::endpoints;
use crate::failure::{FAILED, Failure};
use crate::files;
use crate::focus::Scope;
use crate::lines;
use crate::loaded::{Loaded, Loader};
use crate::report::{self, View};
use crate::table;
use crate::units::count;
use crate::warn;

/// Runs the command; the exit code says whether all files could be read.
pub fn top(args: &TopArgs) -> Result<u8, Failure> {
    let filters = &args.filters;
    let mut loader = Loader::new(filters.clone());
    let mut problems = 0;
    for path in &args.files {
        let paths = files::expand(path).unwrap_or_else(|error| {
            problems += 1;
            error_of_file(&error);
            Vec::new()
        });
        for path in paths {
            match files::read(&path) {
                Ok(decoded) => {
                    if let Some(error) = &decoded.report_error {
                        warn(format!("{}: {error}; the samples are fine", path.display()));
                    }
                    loader.add(&path, &decoded);
                }
                Err(error) => {
                    problems += 1;
                    error_of_file(&error);
                }
            }
        }
    }
    if loader.is_empty() {
        return Err(Failure::new(FAILED, "no profile could be read, so there is nothing to show"));
    }
    let mut loaded = loader.finish();
    if args.lines && lines::name(&mut loaded.profile) == 0 {
        warn("no debug information of the native code was found on this machine");
    }
    if !filters.is_empty() {
        filter(&mut loaded, args)?;
    }
    hint(&loaded.profile, &args.by);
    let scope = if args.all { Scope::All } else { Scope::Work };
    let view = View {
        by: args.by.clone(),
        sort: args.sort,
        clock: args.value,
        limit: args.limit,
        scope,
        is_filtered: !filters.is_empty(),
    };
    let mut out = anstream::stdout().lock();
    if args.json {
        let text = serde_json::to_string_pretty(&Value::Object(report::json(&loaded, &view)))?;
        writeln!(out, "{text}")?;
    } else {
        let width = table::width(&std::io::stdout());
        writeln!(out, "{}", report::tables(&loaded, &view, width))?;
        write!(out, "{}", report::numbers(&loaded, &view, width))?;
        writeln!(out, "{:<9} {}", "files", count(loaded.files.len(), "file"))?;
    }
    out.flush()?;
    Ok(if problems == 0 { 0 } else { FAILED })
}

/// Leaves only what is looked at; an error if that is nothing.
fn filter(loaded: &mut Loaded, args: &TopArgs) -> Result<(), Failure> {
    let endpoints = endpoints::names(&loaded.profile);
    let endpoints = match endpoints.len() {
        0 => "the files know of no endpoints".to_owned(),
        _ => format!("endpoints there are: {}", some(&endpoints)),
    };
    loaded.filter(&args.filters);
    let profile = &loaded.profile;
    let has_rows = args.by == By::Endpoint && !profile.endpoints.is_empty();
    if profile.samples.is_empty() && !has_rows {
        let message = format!("nothing matches {}; {endpoints}", args.filters);
        return Err(Failure::new(FAILED, table::printable(&message)));
    }
    Ok(())
}

/// Says why a table can't tell what was asked for.
fn hint(profile: &Profile, by: &By) {
    let mut samples = profile.samples.iter();
    match by {
        By::Endpoint | By::Span if !samples.any(|sample| sample.span.is_some()) => {
            warn("no sample is of a request: the program told the profiler of none");
        }
        By::Label(name)
            if !samples.any(|sample| profile.labels_of(sample).any(|(n, _)| n == name)) =>
        {
            let labels = profile.labels.iter().flatten().map(|label| profile.text(label.name));
            let names: Vec<_> = labels.collect::<BTreeSet<_>>().into_iter().collect();
            let there = match names.len() {
                0 => "there are no labels".to_owned(),
                _ => format!("labels there are: {}", some(&names)),
            };
            warn(table::printable(&format!("no sample has a label {name}; {there}")));
        }
        _ => {}
    }
}

/// The first names of many.
fn some(names: &[&str]) -> String {
    const SHOWN: usize = 10;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// A file that is passed over.
fn error_of_file(error: &anyhow::Error) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    crate::say(style, "corprof: error:", &format!("{error:#}"));
}
