//! `corprof top`: tables from profile files.

use std::io::Write as _;

use serde_json::Value;

use crate::args::{By, TopArgs};
use crate::failure::{FAILED, Failure};
use crate::files::{self, Named};
use crate::focus::Scope;
use crate::lines::Lines;
use crate::loaded::{Loaded, Loader};
use crate::report::{self, View};
use crate::table;
use crate::units::count;
use crate::{note, nothing, warn};

/// Runs the command; the exit code says whether all files could be read.
pub fn top(args: &TopArgs) -> Result<u8, Failure> {
    let filters = &args.filters;
    let (loader, problems) = load(args);
    if loader.is_empty() {
        return Err(Failure::new(FAILED, "no profile could be read, so there is nothing to show"));
    }
    let mut loaded = loader.finish();
    let lines =
        if args.lines { Lines::find(&loaded.profile, &args.symbols) } else { Lines::default() };
    let hint = nothing::tells(&loaded.profile, &args.by);
    if !filters.is_empty() {
        filter(&mut loaded, args)?;
    }
    if let Some(hint) = hint {
        warn(hint);
    }
    if args.lines {
        lines.tell(&loaded.profile);
    }
    let scope = if args.all { Scope::All } else { Scope::Work };
    let view = View {
        by: args.by.clone(),
        sort: args.sort,
        clock: args.value,
        limit: args.limit,
        scope,
        is_filtered: !filters.is_empty(),
        lines,
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

/// Reads each file once, and counts what could not be read.
fn load(args: &TopArgs) -> (Loader, usize) {
    let mut loader = Loader::new(args.filters.clone());
    let mut named = Named::default();
    let mut problems = 0;
    for path in &args.files {
        let paths = files::expand(path).unwrap_or_else(|error| {
            problems += 1;
            error_of_file(&error);
            Vec::new()
        });
        for path in paths {
            if !named.is_new(&path) {
                continue;
            }
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
    match named.again() {
        0 => {}
        1 => note("1 file is named more than once; it counts once"),
        n => note(format!("{n} files are named more than once; each counts once")),
    }
    (loader, problems)
}

/// Leaves only what is looked at; an error if that is nothing.
fn filter(loaded: &mut Loaded, args: &TopArgs) -> Result<(), Failure> {
    let (profile, filters) = (&loaded.profile, &args.filters);
    let has_rows = args.by == By::Endpoint && filters.keep_requests_of(profile);
    if !has_rows && !profile.samples.iter().any(|sample| filters.keeps(profile, sample)) {
        return Err(Failure::new(FAILED, nothing::fits(profile, filters)));
    }
    loaded.filter(filters);
    Ok(())
}

/// A file that is passed over.
fn error_of_file(error: &anyhow::Error) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    crate::say(style, "corprof: error:", &format!("{error:#}"));
}
