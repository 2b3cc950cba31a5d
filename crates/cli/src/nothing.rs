//! Why nothing is there of what was asked for, and what there is instead.

use std::collections::BTreeSet;

use profile::{Profile, Sample, SpanIds, Values};

use crate::args::By;
use crate::endpoints;
use crate::filters::Filters;
use crate::loaded::Loaded;
use crate::spans::HOOK;
use crate::table;
use crate::value::{self, Value};

/// Names that are listed; the rest is counted.
const SHOWN: usize = 10;
/// Why a program's samples may know of no requests.
const NO_SPANS: &str = "the program ran without the startup hook (attached to, --spans false, or \
                        no Corprof.Spans.dll beside the agent)";
/// The same where requests ended.
const SHORT: &str = "requests ended, and no sample is of one: they were too short, or the files \
                     don't tell; --by endpoint shows them";
/// The same where the startup hook ran.
const NO_REQUESTS: &str = "the startup hook ran and saw no request of ASP.NET Core, and no \
                           Activity that begins one";
/// The same where the files say that the profiler left the program.
const ATTACHED: &str = "the profiler came and left as `corprof attach` has it, which knows of no \
                        requests; start the program with `corprof run`, or with the variables of \
                        `corprof env`";

/// Why no sample is left by the filters: what is wrong with each that leaves none by itself.
pub fn fits(loaded: &Loaded, filters: &Filters) -> String {
    let profile = &loaded.profile;
    let mut reasons = Vec::new();
    let any = |filters: &Filters| profile.samples.iter().any(|s| filters.keeps(profile, s));
    for one in filters.each() {
        if any(&one) {
            continue;
        }
        if one.endpoint.is_some() && one.keep_requests_of(profile) {
            let text = "its requests were too short for a sample; --by endpoint shows them";
            reasons.push(text.to_owned());
        } else if one.endpoint.is_some() {
            reasons.push(endpoints_there_are(profile, no_spans(loaded)));
        }
        if one.span.is_some() {
            reasons.push(no_span(profile, no_spans(loaded)));
        }
        for (name, value) in &one.labels {
            reasons.push(no_value(profile, name, value));
        }
        if !one.state.is_empty() {
            reasons.push("there is no wall time in that state".to_owned());
        }
    }
    if reasons.is_empty() {
        reasons.push("there are samples for each of them, but none for all".to_owned());
    }
    table::printable(&format!("nothing matches {filters}; {}", reasons.join("; ")))
}

/// Why nothing is left of these values, where all that was read adds up to that; `None` if
/// something is, or none of them is asked for.
pub fn left(loaded: &Loaded, filters: &Filters, all: &Values, wanted: &[Value]) -> Option<String> {
    let total = loaded.profile.total();
    let none_of = |values: &Values| wanted.iter().all(|value| value.of(values) == 0);
    if wanted.is_empty() || !none_of(&total) {
        return None;
    }
    let names = |values: &Values| value::names(value::there(values), "and");
    let (before, after) = (names(all), names(&total));
    let wanted = value::names(wanted.iter().copied(), "or");
    let text = if before.is_empty() {
        "the profiles have no time of any kind: nothing ran while they were taken, or they are of \
         something else"
            .to_owned()
    } else if none_of(all) {
        format!("the profiles have no {wanted} time; choose another --value: there is {before}")
    } else if after.is_empty() {
        format!("the profiles have {before} time, but {filters} leaves none of it; choose others")
    } else {
        format!(
            "the profiles have {wanted} time, but {filters} leaves none of it; choose another \
             --value (there is {after}), or other filters"
        )
    };
    Some(table::printable(&text))
}

/// Why a table has nothing but the row of what has no such thing.
pub fn tells(loaded: &Loaded, by: &By) -> Option<String> {
    let profile = &loaded.profile;
    let text = match by {
        // Those that ended are rows, whether a sample is of them or not.
        By::Endpoint if !profile.endpoints.is_empty() => return None,
        By::Endpoint | By::Span if !has_spans(profile) => {
            format!("no sample is of a request: {}", no_spans(loaded))
        }
        By::Label(name) if values(profile, name).is_empty() => no_label(profile, name),
        _ => return None,
    };
    Some(table::printable(&text))
}

/// Why there may be no requests.
fn no_spans(loaded: &Loaded) -> &'static str {
    let profile = &loaded.profile;
    if !profile.endpoints.is_empty() {
        SHORT
    } else if hook_ran(loaded) {
        NO_REQUESTS
    } else if loaded.was_left() {
        ATTACHED
    } else {
        NO_SPANS
    }
}

/// Whether it is known that the startup hook ran: it asked the agent, or a stack has its code.
fn hook_ran(loaded: &Loaded) -> bool {
    if loaded.report().is_some_and(|report| report.traced > 0) {
        return true;
    }
    let profile = &loaded.profile;
    let files = profile.modules.iter().map(|module| profile.text(module.file));
    files.filter_map(|file| file.rsplit(['/', '\\']).next()).any(|name| name == HOOK)
}

fn endpoints_there_are(profile: &Profile, no_spans: &str) -> String {
    let names = endpoints::names(profile);
    match names.len() {
        0 if has_spans(profile) => "the files know of no endpoints".to_owned(),
        0 => format!("the files know of no endpoints: {no_spans}"),
        _ => format!("endpoints there are: {}", some(&names)),
    }
}

fn no_span(profile: &Profile, no_spans: &str) -> String {
    let mut spans = profile.samples.iter().filter_map(|sample| profile.span_of(sample));
    if spans.any(|span| span.ids != SpanIds::default()) {
        "no sample has this span".to_owned()
    } else if has_spans(profile) {
        "the files have no span ids: they were made with --span-ids false".to_owned()
    } else {
        format!("the files have no span ids: {no_spans}")
    }
}

fn no_value(profile: &Profile, name: &str, value: &str) -> String {
    let values: Vec<_> = values(profile, name).into_iter().collect();
    match values.len() {
        0 => no_label(profile, name),
        _ => format!("no sample has {name}={value}; values of {name} are: {}", some(&values)),
    }
}

fn no_label(profile: &Profile, name: &str) -> String {
    let labels = profile.samples.iter().flat_map(|sample| profile.labels_of(sample));
    let names: Vec<_> = labels.map(|(name, _)| name).collect::<BTreeSet<_>>().into_iter().collect();
    let there = match names.len() {
        0 => "there are no labels".to_owned(),
        _ => format!("labels there are: {}", some(&names)),
    };
    format!("no sample has a label {name}; {there}")
}

fn values<'a>(profile: &'a Profile, label: &str) -> BTreeSet<&'a str> {
    let labels = profile.samples.iter().flat_map(|sample: &Sample| profile.labels_of(sample));
    labels.filter(|(name, _)| *name == label).map(|(_, value)| value).collect()
}

fn has_spans(profile: &Profile) -> bool {
    profile.samples.iter().any(|sample| sample.span.is_some())
}

/// The first names of many.
fn some(names: &[&str]) -> String {
    let shown = |name: &&str| if name.is_empty() { "[empty]" } else { *name }.to_owned();
    let list = names.iter().take(SHOWN).map(shown).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => list,
        more => format!("{list}, and {more} more"),
    }
}
