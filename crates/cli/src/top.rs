//! `corprof top`: tables from profile files.

use std::io::Write as _;

use serde_json::Value;

use crate::args::TopArgs;
use crate::failure::{FAILED, Failure};
use crate::files;
use crate::focus::Scope;
use crate::loaded::Loader;
use crate::report::{self, View};
use crate::table;
use crate::units::count;
use crate::warn;

/// Runs the command; the exit code says whether all files could be read.
pub fn top(args: &TopArgs) -> Result<u8, Failure> {
    let mut loader = Loader::default();
    let mut problems = 0;
    for path in &args.files {
        let paths = files::expand(path).unwrap_or_else(|error| {
            problems += 1;
            error_of_file(&error);
            Vec::new()
        });
        for path in paths {
            match files::read(&path) {
                Ok(mut decoded) => {
                    if let Some(error) = &decoded.report_error {
                        warn(format!("{}: {error}; the samples are fine", path.display()));
                    }
                    if !args.state.is_empty() {
                        let wanted = |state| args.state.contains(&state);
                        decoded.profile.samples.retain(|sample| sample.state.is_some_and(wanted));
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
    let loaded = loader.finish();
    let scope = if args.all { Scope::All } else { Scope::Work };
    let view = View {
        by: args.by,
        sort: args.sort,
        clock: args.value,
        limit: args.limit,
        scope,
        is_filtered: !args.state.is_empty(),
    };
    let mut out = anstream::stdout().lock();
    if args.json {
        let text = serde_json::to_string_pretty(&Value::Object(report::json(&loaded, view)))?;
        writeln!(out, "{text}")?;
    } else {
        let width = table::width(&std::io::stdout());
        writeln!(out, "{}", report::tables(&loaded, view, width))?;
        write!(out, "{}", report::numbers(&loaded, view, width))?;
        writeln!(out, "{:<9} {}", "files", count(loaded.files.len(), "file"))?;
    }
    out.flush()?;
    Ok(if problems == 0 { 0 } else { FAILED })
}

/// A file that is passed over.
fn error_of_file(error: &anyhow::Error) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    crate::say(style, "corprof: error:", &format!("{error:#}"));
}
