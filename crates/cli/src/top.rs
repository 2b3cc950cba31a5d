//! `corprof top`: tables from profile files.

use std::io::Write as _;

use serde_json::Value;

use crate::args::{By, TopArgs};
use crate::failure::{FAILED, Failure};
use crate::focus::Scope;
use crate::lines::Lines;
use crate::loaded::Loaded;
use crate::report::{self, View};
use crate::units::count;
use crate::{loading, nothing, table, warn};

/// Runs the command; the exit code says whether all files could be read.
pub fn top(args: &TopArgs) -> Result<u8, Failure> {
    let filters = &args.filters;
    let (mut loaded, problems) = loading::load(&args.files, filters)?;
    let lines =
        if args.lines { Lines::find(&loaded.profile, &args.symbols) } else { Lines::default() };
    let hint = nothing::tells(&loaded, &args.by);
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
        limit: report::rows(args.limit, args.json),
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

/// Leaves only what is looked at; an error if that is nothing.
fn filter(loaded: &mut Loaded, args: &TopArgs) -> Result<(), Failure> {
    let (profile, filters) = (&loaded.profile, &args.filters);
    let has_rows = args.by == By::Endpoint && filters.keep_requests_of(profile);
    if !has_rows && !profile.samples.iter().any(|sample| filters.keeps(profile, sample)) {
        return Err(Failure::new(FAILED, nothing::fits(loaded, filters)));
    }
    loaded.filter(filters);
    Ok(())
}
