//! Which samples are looked at: the same flags for all commands that read profiles.

use std::fmt;

use clap::Args;
use model::ThreadState;
use profile::{Profile, Sample, SpanIds};

use crate::endpoints;

/// The filters; all that are given have to hold.
#[derive(Args, Clone, Debug, Default)]
pub struct Filters {
    /// Only wall time in this state, or in one of these (with commas): lock, io, sleeping, waiting,
    /// runnable, running, gc-pause, suspended
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state,
          help_heading = HEADING)]
    pub state: Vec<ThreadState>,

    /// Only what was done for this endpoint; with a * at its end, for all that begin so
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub endpoint: Option<String>,

    /// Only what was done for this span, or for the whole request if it is its first one (16 hex
    /// digits); or for this trace (32)
    #[arg(long, value_name = "ID", value_parser = id, help_heading = HEADING)]
    pub span: Option<Id>,

    /// Only what has this label; with several all of them
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, help_heading = HEADING)]
    pub labels: Vec<(String, String)>,
}

const HEADING: &str = "Filters (all that are given have to hold)";

/// Which span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// A span, or the local root of a request.
    Span(u64),
    /// All spans of a trace.
    Trace([u8; 16]),
}

impl Filters {
    /// Whether everything is kept.
    pub fn is_empty(&self) -> bool {
        let Self { state, endpoint, span, labels } = self;
        state.is_empty() && endpoint.is_none() && span.is_none() && labels.is_empty()
    }

    /// Whether all files have to be known before it can be said what of the first is looked at: one
    /// may tell the endpoint of another's requests.
    pub fn need_names(&self) -> bool {
        self.endpoint.is_some()
    }

    /// Each filter alone.
    pub fn each(&self) -> Vec<Self> {
        let Self { state, endpoint, span, labels } = self.clone();
        let state = (!state.is_empty()).then(|| Self { state, ..Self::default() });
        let endpoint = endpoint.map(|name| Self { endpoint: Some(name), ..Self::default() });
        let span = span.map(|id| Self { span: Some(id), ..Self::default() });
        let label = |label| Self { labels: vec![label], ..Self::default() };
        let labels = labels.into_iter().map(label);
        [state, endpoint, span].into_iter().flatten().chain(labels).collect()
    }

    /// Whether a sample is looked at.
    pub fn keeps(&self, profile: &Profile, sample: &Sample) -> bool {
        let has = |(name, value): &(String, String)| {
            profile.labels_of(sample).any(|label| label == (name, value))
        };
        (self.state.is_empty() || sample.state.is_some_and(|state| self.state.contains(&state)))
            && self.keeps_endpoint(endpoints::name_of(profile, sample))
            && self
                .span
                .is_none_or(|id| profile.span_of(sample).is_some_and(|span| id.is_of(&span.ids)))
            && self.labels.iter().all(has)
    }

    /// Whether the requests of an endpoint are those that samples are looked at of. With a span or
    /// a label it is not known which of them are.
    pub fn keeps_requests(&self, endpoint: &str) -> bool {
        self.span.is_none() && self.labels.is_empty() && self.keeps_endpoint(endpoint)
    }

    /// Whether there are requests that are looked at, sampled or not.
    pub fn keep_requests_of(&self, profile: &Profile) -> bool {
        let mut names = profile.endpoints.iter().map(|endpoint| profile.text(endpoint.name));
        names.any(|name| self.keeps_requests(endpoints::or_none(name)))
    }

    fn keeps_endpoint(&self, name: &str) -> bool {
        self.endpoint.as_deref().is_none_or(|wanted| {
            let begins = wanted.strip_suffix('*').is_some_and(|begin| name.starts_with(begin));
            wanted == name || begins && !endpoints::is_none(name)
        })
    }
}

/// As they are typed.
impl fmt::Display for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states: Vec<_> = self.state.iter().map(|state| typed(*state)).collect();
        let state = (!states.is_empty()).then(|| format!("--state {}", states.join(",")));
        let endpoint = self.endpoint.as_ref().map(|name| format!("--endpoint '{name}'"));
        let span = self.span.map(|id| match id {
            Id::Span(id) => format!("--span {id:016x}"),
            Id::Trace(id) => format!("--span {:032x}", u128::from_be_bytes(id)),
        });
        let labels = self.labels.iter().map(|(name, value)| format!("--label '{name}={value}'"));
        let all: Vec<_> = [state, endpoint, span].into_iter().flatten().chain(labels).collect();
        f.write_str(&all.join(" "))
    }
}

impl Id {
    fn is_of(self, ids: &SpanIds) -> bool {
        match self {
            Self::Span(id) => id == ids.span_id || id == ids.local_root_span_id,
            Self::Trace(id) => id == ids.trace_id,
        }
    }
}

/// A state's name without blanks, as it is typed most easily; with them it is understood, too.
fn typed(state: ThreadState) -> String {
    state.name().replace(' ', "-")
}

fn state(text: &str) -> Result<ThreadState, String> {
    let names = || ThreadState::ALL.map(typed).join(", ");
    let found =
        ThreadState::ALL.into_iter().find(|state| state.name() == text || typed(*state) == text);
    found.ok_or_else(|| format!("none of {}", names()))
}

fn id(text: &str) -> Result<Id, String> {
    let span = SpanIds::span_from_text(text).filter(|id| *id != 0).map(Id::Span);
    let trace = SpanIds::trace_from_text(text).filter(|id| *id != [0; 16]).map(Id::Trace);
    span.or(trace).ok_or_else(|| {
        "neither a span's id, which is 16 hex digits, nor a trace's, which is 32".to_owned()
    })
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("not of the form NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_meant_exactly_or_by_its_beginning() {
        for (wanted, name, keeps) in [
            ("GET /", "GET /", true),
            ("GET /", "GET /orders", false),
            ("GET /*", "GET /orders", true),
            ("GET /*", "POST /orders", false),
            ("GET /*", "GET /*", true),
            ("*", "GET /", true),
            ("*", endpoints::NO_ENDPOINT, false),
            ("[*", endpoints::NO_REQUEST, false),
            (endpoints::NO_REQUEST, endpoints::NO_REQUEST, true),
        ] {
            let filters = Filters { endpoint: Some(wanted.to_owned()), ..Filters::default() };
            assert_eq!(filters.keeps_requests(name), keeps, "{wanted} {name}");
        }
    }

    #[test]
    fn ids_and_labels_are_read_and_shown_as_they_are_typed() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let filters = Filters {
            state: vec![ThreadState::Lock, ThreadState::Io],
            endpoint: Some("GET /".to_owned()),
            span: id(trace).ok(),
            labels: vec![label("a=b=c").unwrap(), label("d=").unwrap()],
        };
        assert_eq!(
            filters.to_string(),
            format!(
                "--state lock,io --endpoint 'GET /' --span {trace} --label 'a=b=c' --label 'd='"
            )
        );
        assert_eq!(id("00000000000000a0"), Ok(Id::Span(160)));
        for text in ["", "160", "0000000000000000", "xyz"] {
            assert!(id(text).is_err(), "{text}");
        }
        for text in ["gc pause", "gc-pause"] {
            assert_eq!(state(text), Ok(ThreadState::GcPause));
        }
        assert!(state("gc").is_err());
        let filters = Filters { state: vec![ThreadState::GcPause], ..Filters::default() };
        assert_eq!(filters.to_string(), "--state gc-pause");
        assert!(label("=a").is_err() && label("a").is_err());
        assert!(Filters::default().is_empty() && !filters.is_empty());
    }
}
