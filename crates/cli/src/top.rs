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
use crate::{loading, nothing, table, value, warn};

/// Runs the command; the exit code says whether all files could be read.
pub fn top(args: &TopArgs) -> Result<u8, Failure> {
    let filters = &args.filters;
    Lines::check(&args.symbols);
    let (mut loaded, problems) = loading::load(&args.files, filters)?;
    let lines =
        if args.lines { Lines::find(&loaded.profile, &args.symbols) } else { Lines::default() };
    let all = loaded.profile.total();
    let hint = nothing::tells(&loaded, &args.by);
    if !filters.is_empty() {
        filter(&mut loaded, args)?;
    }
    // Where the rows are requests, those that were too short for a sample are rows, too.
    let empty = if args.by == By::Endpoint && !loaded.profile.endpoints.is_empty() {
        None
    } else {
        nothing::left(&loaded, filters, &all, &wanted(args))
    };
    hint.into_iter().chain(empty).for_each(warn);
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

/// The values of which the tables would be empty: the one that was named, or both.
fn wanted(args: &TopArgs) -> Vec<value::Value> {
    let both = vec![value::Value::Cpu, value::Value::Wall];
    args.value.map_or(both, |clock| vec![clock.into()])
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
